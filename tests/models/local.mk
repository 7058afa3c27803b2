# The protocols, model-checked.
MODELS_SCRIPT_TESTS = \
	tests/models/notify.sh \
	tests/models/channel.sh \
	tests/models/closer.sh \
	tests/models/lease.sh \
	tests/models/lease_broken.sh \
	tests/models/names.sh \
	tests/models/ring_broadcast.sh \
	tests/models/ring_full.sh \
	tests/models/ring_cooldown.sh \
	tests/models/ring_wait.sh \
	$(NULL)
dist_check_SCRIPTS += $(MODELS_SCRIPT_TESTS) tests/models/ring.sh
TESTS += $(MODELS_SCRIPT_TESTS)

EXTRA_DIST += \
	tests/models/README \
	tests/models/notify.pml \
	tests/models/channel.pml \
	tests/models/closer.pml \
	tests/models/lease.pml \
	tests/models/resume.pml \
	tests/models/ring.pml \
	tests/models/ring_broadcast.pml \
	tests/models/ring_full.pml \
	tests/models/ring_cooldown.pml \
	tests/models/ring_wait.pml \
	tests/models/table.pml \
	$(NULL)
