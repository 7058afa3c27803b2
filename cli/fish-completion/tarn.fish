# SPDX-License-Identifier: MIT
# Completion of tarn(1) for fish, made by the command from its own tables.
tarn completion fish | source
