# A manual page from what a program says of itself: from --help (section 1), or the reference of the
# configuration from sonard --config-reference (section 5). So neither can say what is not so.
#   awk -f manual.awk -v name=sonard -v section=1 -v version=0.1.0 -v summary="..." HELP
function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/`[^`]*`/, "\\fB&\\fR", text)
    gsub(/`/, "", text)
    sub(/^[.']/, "\\\\\\&&", text)
    return text
}
function say(text) { print escape(text) }
function section_of(title) { print ".SH " toupper(escape(title)) }
# "| a | b |" into cell[1..]
function split_row(line, cell) {
    gsub(/\\\|/, "\001", line)
    sub(/^\| */, "", line)
    sub(/ *\|$/, "", line)
    return split(line, cell, / *\| */)
}

BEGIN {
    printf ".TH %s %s \"\" \"sonard %s\" \"sonard\"\n", toupper(name), section, version
    printf ".SH NAME\n%s \\- %s\n", name, escape(summary)
    if (section == 5)
        section_of("description")
}

# ---- section 1 ---------------------------------------------------------------------------------
section == 1 && FNR == 1 { print ".SH SYNOPSIS\n.nf" }
section == 1 && /^Usage: / { say(substr($0, 8)); usage = 1; next }
section == 1 && usage && /^       / { sub(/^ +/, ""); say($0); next }
section == 1 && usage { usage = 0; print ".fi"; section_of("description") }
section == 1 && (/^ +-/ || /^  [a-z]+  +[^ ]/) {
    line = $0
    sub(/^ +/, "", line)
    at = match(line, /   *[^ -]/)
    print ".TP\n.B " escape(at ? substr(line, 1, at - 1) : line)
    if (at) { text = substr(line, at); sub(/^ +/, "", text); say(text) }
    options = 1
    next
}
section == 1 && options && /^          / { sub(/^ +/, ""); say($0); next }
section == 1 && /^$/ { print ".PP"; options = 0; next }
section == 1 && /:$/ { sub(/^ +/, ""); sub(/:$/, ""); print ".SS " escape($0); next }
section == 1 { if (options) print ".PP"; options = 0; sub(/^ +/, ""); say($0) }

# ---- section 5 ---------------------------------------------------------------------------------
section == 5 && /^# / { next }
section == 5 && /^## / { section_of(substr($0, 4)); columns = 0; next }
section == 5 && /^\| ---/ { next }
section == 5 && /^\|/ && !columns { columns = split_row($0, title); next }
section == 5 && /^\|/ {
    n = split_row($0, cell)
    gsub(/`/, "", cell[1])
    print ".TP\n.B " escape(cell[1])
    for (i = n; i >= 2; i--) {
        gsub(/\001/, "|", cell[i])
        if (cell[i] == "") continue
        if (title[i] == "meaning") say(cell[i])
        else { print ".br"; say(title[i] ": " cell[i]) }
    }
    next
}
section == 5 && /^- / { print ".IP \\(bu 2"; say(substr($0, 3)); next }
section == 5 && /^$/ { print ".PP"; columns = 0; next }
section == 5 { sub(/^ +/, ""); say($0) }

END {
    section_of("see also")
    if (section == 1) print (name == "sonard" ? "" : ".BR sonard (1),\n") ".BR sonard.yaml (5)"
    else print ".BR sonard (1)"
    print ".PP\nPages by task: /usr/share/doc/sonard."
}
