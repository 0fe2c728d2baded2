# Manual pages, made by the programs themselves while building (manual.awk).
find_program(SONAR_AWK awk)
find_program(SONAR_GZIP gzip)
if(NOT SONAR_AWK OR NOT SONAR_GZIP)
  message(STATUS "Manual pages: not made, awk or gzip is missing")
  return()
endif()
set(sonar_manual_pages)
# PROGRAM OPTION SECTION NAME SUMMARY
function(sonar_manual_page program option section name summary)
  if(NOT TARGET ${program})
    return()
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${name}.${section})
  add_custom_command(OUTPUT ${page}.gz
    COMMAND ${program} ${option} > ${page}.text
    COMMAND ${SONAR_AWK} -f ${PROJECT_SOURCE_DIR}/cmake/manual.awk -v name=${name} -v section=${section}
            -v version=${PROJECT_VERSION} -v "summary=${summary}" ${page}.text > ${page}
    COMMAND ${SONAR_GZIP} -9nf ${page}
    DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/manual.awk VERBATIM)
  set(component tools)
  if(${program} IN_LIST SONAR_NODE_PROGRAMS)
    set(component sonard)
  endif()
  install(FILES ${page}.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/man/man${section} COMPONENT ${component})
  set(sonar_manual_pages ${sonar_manual_pages} ${page}.gz PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
sonar_manual_page(sonard --help 1 sonard "beamform the samples of a hydrophone array in real time")
sonar_manual_page(sonard --config-reference 5 sonard.yaml "configuration of sonard")
sonar_manual_page(sonarctl --help 1 sonarctl "ask and change a running sonard")
sonar_manual_page(sonar-keys --help 1 sonar-keys "make keys for the connections of sonard")
sonar_manual_page(sonar-sim --help 1 sonar-sim "send what a simulated hydrophone array hears")
sonar_manual_page(sonar-replay --help 1 sonar-replay "send a recording of a hydrophone array")
sonar_manual_page(sonar-export --help 1 sonar-export "write a recording as WAV or HDF5")
sonar_manual_page(sonar-watch --help 1 sonar-watch "show the spectra that sonard publishes")
sonar_manual_page(sonar-check --help 1 sonar-check "compare the detections of sonard with the truth")
sonar_manual_page(sonar-bench --help 1 sonar-bench "time the stages of sonard")
add_custom_target(manual ALL DEPENDS ${sonar_manual_pages})
