# 1 and 8 for the tools, 7 for the ideas.

dist_man_MANS += \
	man/tarn.1 \
	man/tarn.7 \
	man/tarnd.8 \
	$(NULL)
