# Writes the commit of SOURCE, as "-dirty" where tracked files differ from it, to the header TO; the file stays as it is
# where nothing has changed.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${TO} CONTENT "#define SONAR_COMMIT \"${commit}\"\n")
