/* SPDX-License-Identifier: MIT */
#include "tests/kit/cli_channel.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"

static struct daemon server;
char kit_cli_out[1 << 16];

struct running kit_cli_start(const char *line)
{
	int fds[2];
	struct running running;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC) < 0)
		bail("pipe: %m");
	running.pid = fork();
	if (running.pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(3);
	}
	close(fds[1]);
	running.f = fdopen(fds[0], "r");
	return running;
}

int kit_cli_status(struct running *running)
{
	int status = 0;

	fclose(running->f);
	waitpid(running->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

int kit_cli_run(const char *fmt, ...)
{
	struct running running;
	char line[512];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = (size_t)snprintf(line, sizeof(line), "exec \"$TARN\" ");
	vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	running = kit_cli_start(line);
	n = fread(kit_cli_out, 1, sizeof(kit_cli_out) - 1, running.f);
	kit_cli_out[n] = '\0';
	return kit_cli_status(&running);
}

void kit_cli_next_line(struct running *running)
{
	if (!fgets(kit_cli_out, sizeof(kit_cli_out), running->f))
		kit_cli_out[0] = '\0';
	kit_cli_out[strcspn(kit_cli_out, "\n")] = '\0';
}

tarn_store *kit_cli_begin(void)
{
	if (!getenv("TARN"))
		bail("TARN names no command");
	daemon_start(&server, "channel.sock", NULL);
	setenv("TARN_SOCKET", server.socket, 1);
	return kit_channel_store(NULL);
}

int kit_cli_end_daemon(void)
{
	return daemon_stop(&server);
}

tarn_channel *kit_cli_make(
	tarn_store *store, const char *name, enum tarn_channel_mode mode)
{
	const struct tarn_channel_options options = {
		.mode = mode, .slots = 4, .slot_bytes = 8192, .tensors = 2};

	return kit_channel_open(store, name, &options);
}

void kit_cli_send(
	tarn_channel *channel, int64_t n, const void *tag, size_t size)
{
	tarn_slot *slot = kit_channel_acquire(channel);
	tarn_tensor *t;

	if (tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &t) < 0 ||
		tarn_slot_set_tag(slot, tag, size) < 0)
		bail("fill: %s", tarn_error_message());
	memset(tarn_tensor_data(t), 7, (size_t)n);
	tarn_tensor_unref(t);
	if (tarn_slot_publish(slot) < 0)
		bail("publish: %s", tarn_error_message());
}
