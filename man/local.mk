# 1 and 8 for the tools, 5 for their files, 7 for the ideas.

dist_man_MANS += \
	man/tarn-channels.7 \
	man/tarn-security.7 \
	man/tarn.1 \
	man/tarn.7 \
	man/tarnd.8 \
	man/tarnd.conf.5 \
	$(NULL)
