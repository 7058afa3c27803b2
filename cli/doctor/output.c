/* SPDX-License-Identifier: MIT */
/*
 * Findings for people, in 80 columns: a heading for each group, a line for each
 * finding, and below those that are not good what they cost, and the command
 * that changes it. Commands are not broken into lines, so that they can be
 * copied.
 */
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/text.h"

#define COLUMNS 80
#define INDENT 24 /* of values: two, a word, a key */

static const char *const words[WORTHS] = {
	[WORTH_GOOD] = "good",
	[WORTH_COSTS] = "costs",
	[WORTH_BROKEN] = "broken",
	[WORTH_UNKNOWN] = "unknown",
};

/* ---- for people ---------------------------------------------------------- */

/* Prints text, of which the first line begins at INDENT, broken at blanks. */
static void print_wrapped(const char *text)
{
	int column = INDENT;

	while (*text) {
		int n = (int)strcspn(text, " ");
		char word[1024];

		snprintf(word, sizeof(word), "%.*s", n, text);
		if (column > INDENT &&
			column + 1 + text_put(NULL, word) > COLUMNS) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
		} else if (column > INDENT) {
			putchar(' ');
			column++;
		}
		column += text_put(stdout, word);
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_finding(const struct finding *f)
{
	printf("  %-8s %-12s ", words[f->worth], f->key);
	print_wrapped(f->value);
	if (f->cost) {
		printf("%*s", INDENT, "");
		print_wrapped(f->cost);
	}
	if (f->remedy[0]) {
		printf("%*s> ", INDENT, "");
		text_put(stdout, f->remedy);
		putchar('\n');
	}
}

/* A group, and of files each path, has a heading. */
static void print_heading(const struct finding *f, const struct finding *before)
{
	if (before && before->group == f->group && before->path == f->path)
		return;
	if (before && before->group == f->group && !f->path)
		return;
	fputs(f->group, stdout);
	if (f->path) {
		putchar(' ');
		text_put(stdout, f->path);
	}
	putchar('\n');
}

void findings_print(const struct findings *findings)
{
	for (size_t i = 0; i < findings->n; i++) {
		const struct finding *f = &findings->at[i];

		print_heading(f, i ? f - 1 : NULL);
		print_finding(f);
	}
	printf("\n%zu good, %zu cost something, %zu broken, %zu unknown\n",
		findings_count(findings, WORTH_GOOD),
		findings_count(findings, WORTH_COSTS),
		findings_count(findings, WORTH_BROKEN),
		findings_count(findings, WORTH_UNKNOWN));
}

/* ---- for programs -------------------------------------------------------- */

/* null where there is nothing to say. */
static json_t *text_json(const char *text)
{
	return text && *text ? json_text(text) : must(json_null());
}

static json_t *finding_json(const struct finding *f)
{
	json_t *object = must(json_object());

	json_put(object, "group", json_text(f->group));
	json_put(object, "key", json_text(f->key));
	json_put(object, "path", text_json(f->path));
	json_put(object, "worth", json_text(words[f->worth]));
	json_put(object, "value", json_text(f->value));
	json_put(object, "cost", text_json(f->cost));
	json_put(object, "remedy", text_json(f->remedy));
	return object;
}

json_t *findings_json(const struct findings *findings)
{
	json_t *object = must(json_object()), *array = must(json_array());

	for (size_t i = 0; i < findings->n; i++)
		if (json_array_append_new(
			    array, finding_json(&findings->at[i])))
			must(NULL);
	json_put(object, "findings", array);
	for (int w = 0; w < WORTHS; w++)
		json_put(object, words[w],
			json_u64(findings_count(findings, (enum worth)w)));
	return object;
}
