# SPDX-License-Identifier: MIT
#
# Makes man pages of section 3 from a public header: one for the header, with
# the concept that it opens with, and one for each group of functions under one
# comment. Each further name of a group is a page that includes the first.
#
#	awk -f scripts/man3.awk -v out=FOLDER -v date='.Dd line' tarn/NAME.h
#
# The headers' comments are the only source, so they cannot disagree.

# ---- text -------------------------------------------------------------------

function escape(s) {
	gsub(/\\/, "\\e", s)
	if (s ~ /^[.']/)
		s = "\\&" s
	return s
}

# A comment as mdoc: paragraphs, lists, and what is indented by a tab as it is.
function put_text(text, page,    lines, n, i, s, mode, fresh) {
	n = split(text, lines, "\n")
	mode = "text"
	fresh = 1
	for (i = 1; i <= n; i++) {
		s = lines[i]
		if (s ~ /^\t/ ||
			(mode == "code" && s == "" && i < n &&
				lines[i + 1] ~ /^\t/)) {
			if (mode != "code") {
				print ".Bd -literal -offset indent" >page
				mode = "code"
			}
			sub(/^\t/, "", s)
			print escape(s) >page
			continue
		}
		if (mode == "code") {
			print ".Ed" >page
			mode = "text"
			fresh = 0
		}
		if (s == "") {
			if (!fresh)
				pending = 1
			continue
		}
		if (pending || (s ~ /^- / && !fresh))
			print ".Pp" >page
		pending = 0
		sub(/^ +/, "", s)
		print escape(s) >page
		fresh = 0
	}
	if (mode == "code")
		print ".Ed" >page
	pending = 0
}

# The first sentence, as a description of one line.
function brief(text,    s) {
	s = text
	gsub(/\n\n.*/, "", s)
	gsub(/\n/, " ", s)
	sub(/^ +/, "", s)
	if (match(s, /[.:;] /))
		s = substr(s, 1, RSTART - 1)
	sub(/[.:]$/, "", s)
	if (length(s) > 90) {
		s = substr(s, 1, 90)
		sub(/ [^ ]*$/, " ...", s)
	}
	if (s ~ /^[A-Z][a-z ]/)
		s = tolower(substr(s, 1, 1)) substr(s, 2)
	return s == "" ? "see the description" : s
}

# ---- pages ------------------------------------------------------------------

function begin_page(file, title) {
	print ".\\\" Made by scripts/man3.awk from " header "." >file
	print date >file
	print ".Dt " toupper(title) " 3" >file
	print ".Os tarn" >file
	print ".Sh NAME" >file
}

# "int f(int a, char *b);" as .Ft, .Fo, .Fa and .Fc.
function put_prototype(s, page,    open, left, name, args, depth, i, c, arg) {
	sub(/^TARN_PUBLIC /, "", s)
	gsub(/[ \t\n]+/, " ", s)
	gsub(/ TARN_(NONNULL\([0-9, ]*\)|[A-Z_]+)/, "", s) # attributes.h
	open = index(s, "(")
	left = substr(s, 1, open - 1)
	match(left, /[a-z_0-9]+$/)
	name = substr(left, RSTART)
	left = substr(left, 1, RSTART - 1)
	sub(/ $/, "", left)
	args = substr(s, open + 1)
	sub(/\)[^)]*;$/, "", args)
	print ".Ft \"" left "\"" >page
	print ".Fo " name >page
	depth = 0
	arg = ""
	for (i = 1; i <= length(args); i++) {
		c = substr(args, i, 1)
		depth += (c == "(") - (c == ")")
		if (c == "," && !depth) {
			print ".Fa \"" arg "\"" >page
			arg = ""
			i++ # the space
		} else {
			arg = arg c
		}
	}
	print ".Fa \"" arg "\"" >page
	print ".Fc" >page
}

function name_of(proto) {
	sub(/^TARN_PUBLIC /, "", proto)
	proto = substr(proto, 1, index(proto, "(") - 1)
	match(proto, /[a-z_0-9]+$/)
	return substr(proto, RSTART)
}

function put_types(protos, page,    i, any, lines, n, k) {
	for (i = 1; i <= n_types; i++) {
		if (protos !~ ("(struct|enum) " type_name[i] "[^a-z_0-9]"))
			continue
		if (!any)
			print ".Sh TYPES" >page
		any = 1
		if (type_text[i] != "")
			put_text(type_text[i], page)
		print ".Bd -literal" >page
		n = split(type_body[i], lines, "\n")
		for (k = 1; k < n; k++)
			print escape(lines[k]) >page
		print ".Ed" >page
	}
}

function put_group(g,    page, i, n, names, all, ints) {
	n = split(group_protos[g], protos, "\f")
	ints = 1
	for (i = 1; i < n; i++) {
		names[i] = name_of(protos[i])
		ints = ints && protos[i] ~ /^TARN_PUBLIC int /
		all = all protos[i]
	}
	page = out "/" names[1] ".3"
	begin_page(page, names[1])
	for (i = 1; i < n; i++)
		print ".Nm " names[i] (i < n - 1 ? " ," : "") >page
	print ".Nd " brief(group_text[g]) >page
	print ".Sh SYNOPSIS" >page
	print ".In " header >page
	for (i = 1; i < n; i++)
		put_prototype(protos[i], page)
	print ".Sh DESCRIPTION" >page
	put_text(group_text[g], page)
	put_types(all, page)
	if (ints) {
		print ".Sh RETURN VALUES" >page
		print "0 or a negative errno value; then" >page
		print ".Xr tarn_error_message 3" >page
		print "has the cause as a sentence." >page
		print "Positive values, where there are any, are described" >page
		print "above." >page
	}
	print ".Sh SEE ALSO" >page
	print ".Xr " concept " 3 ," >page
	print ".Xr tarn 7" >page
	close(page)
	for (i = 2; i < n; i++) {
		print ".so man3/" names[1] ".3" >(out "/" names[i] ".3")
		close(out "/" names[i] ".3")
		pages = pages " " names[i] ".3"
	}
	group_first[g] = names[1]
}

function put_concept(    page, g, title, at) {
	page = out "/" concept ".3"
	begin_page(page, concept)
	at = match(first_comment, /[:.\n]/)
	title = first_comment
	if (match(title, /: /)) {
		title = substr(title, RSTART + 2)
	}
	print ".Nm " concept >page
	print ".Nd " brief(title) >page
	print ".Sh SYNOPSIS" >page
	print ".In " header >page
	print ".Sh DESCRIPTION" >page
	put_text(first_comment, page)
	print ".Sh SEE ALSO" >page
	for (g = 1; g <= n_groups; g++)
		print ".Xr " group_first[g] " 3 ," >page
	print ".Xr tarn 7" >page
	close(page)
}

# ---- the header --------------------------------------------------------------

# "/* a", " * b" and " c */" without what makes them a comment.
function bare(s) {
	sub(/^[ \t]*\/\*[ ]?/, "", s)
	sub(/[ ]?\*\/.*$/, "", s)
	if (s ~ /^ \*/)
		sub(/^ \*[ ]?/, "", s)
	else
		sub(/^   ?/, "", s)
	return s
}

function end_comment() {
	sub(/^\n+/, "", comment)
	sub(/[\n ]+$/, "", comment)
	if (comment ~ /^----/ || comment ~ /^SPDX/) {
		section = comment ~ /^----/ ? "" : section
		comment = ""
		loose = ""
		last = ""
		return
	}
	if (first_comment == "")
		first_comment = comment
	last = "comment"
}

BEGIN {
	date = date == "" ? ".Dd January 1, 1980" : date
}

FNR == 1 {
	header = FILENAME
	sub(/^.*\/tarn\//, "tarn/", header)
	concept = header
	sub(/\.h$/, "", concept)
	sub(/\//, "-", concept)
}

in_comment {
	comment = comment "\n" bare($0)
	if (/\*\//) {
		in_comment = 0
		end_comment()
	}
	next
}

in_type {
	body = body $0 "\n"
	if (/^};/) {
		in_type = 0
		type_body[n_types] = body
		last = "type"
		comment = ""
	}
	next
}

in_proto {
	proto = proto "\n" $0
	if (/;[ \t]*$/ || /;[ \t]*\/\*/)
		end_proto()
	next
}

function end_proto() {
	in_proto = 0
	sub(/\/\*.*$/, "", proto)
	if (last == "comment" || last != "proto") {
		n_groups++
		group_text[n_groups] = comment
		if (comment == "")
			group_text[n_groups] = loose
		if (group_text[n_groups] == "")
			group_text[n_groups] = first_comment
	}
	group_protos[n_groups] = group_protos[n_groups] proto "\f"
	comment = ""
	last = "proto"
}

/^\/\*/ {
	# What no function follows is about those to come.
	if (last == "comment" && comment != first_comment)
		loose = comment
	comment = bare($0)
	if (/\*\//)
		end_comment()
	else
		in_comment = 1
	next
}

/^(struct|enum) [a-z_0-9]+ \{/ {
	n_types++
	type_name[n_types] = $2
	type_text[n_types] = last == "comment" ? comment : ""
	body = $0 "\n"
	in_type = !/};/
	if (!in_type)
		type_body[n_types] = body
	next
}

/^TARN_PUBLIC / {
	proto = $0
	in_proto = 1
	if (/;[ \t]*$/ || /;[ \t]*\/\*/)
		end_proto()
	next
}

/^typedef / {
	if (last == "comment") {
		loose = comment
		comment = ""
	}
	last = "type"
}

END {
	for (g = 1; g <= n_groups; g++)
		put_group(g)
	if (n_groups)
		put_concept()
}
