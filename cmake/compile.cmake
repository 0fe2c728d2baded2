# Flags every target shares. Strict C17 turns contraction off, so it is asked for; complex products
# need no C99 Annex G checks; NaN checks must work, so never -ffast-math.
add_library(sonar_options INTERFACE)
target_compile_definitions(sonar_options INTERFACE _GNU_SOURCE)
target_compile_options(sonar_options INTERFACE
  -Wall -Wextra $<$<C_COMPILER_ID:GNU>:-Wshadow=local> -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual
  -Wwrite-strings -Wvla -Wformat=2 -Wundef
  -ffp-contract=fast $<$<C_COMPILER_ID:GNU>:-fcx-limited-range> -fno-math-errno -fno-trapping-math)
if(SONAR_WERROR)
  target_compile_options(sonar_options INTERFACE -Werror)
endif()
if(SONAR_SANITIZE)
  # The address sanitizer stops at every use of a null pointer; the check before each use took a third of the time.
  # -g1 keeps lines, which reports need, and halves some compile times.
  target_compile_options(sonar_options INTERFACE
    -g1 -fsanitize=${SONAR_SANITIZE} -fno-sanitize=null -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sonar_options INTERFACE -fsanitize=${SONAR_SANITIZE})
  target_compile_definitions(sonar_options INTERFACE SONAR_NO_CLONES)
endif()
if(SONAR_ONE_ISA)
  target_compile_definitions(sonar_options INTERFACE SONAR_ONE_ISA="${SONAR_ONE_ISA}")
endif()
if(SONAR_COVERAGE)
  target_compile_options(sonar_options INTERFACE --coverage)
  target_link_options(sonar_options INTERFACE --coverage)
  target_compile_definitions(sonar_options INTERFACE SONAR_NO_CLONES)
endif()
