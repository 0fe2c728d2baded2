# cmake --install: what is found where after an installation. Components are the packages of
# cmake/package.cmake; all of them are installed where none is named.
#   bin                       programs
#   lib/sonard                plugins for the GPU, found there by the programs in ../bin
#   lib/<arch>, include       libsonar, shared and static, with its headers, pkg-config and CMake files
#   etc/sonard                an example configuration; /etc where the prefix is /usr
#   lib/systemd/system        units
#   share                     configurations, documents, manual pages, completion
include(GNUInstallDirs)

# ---- programs --------------------------------------------------------------------------------------
set(SONAR_NODE_PROGRAMS sonard sonarctl sonar-keys)
set(SONAR_TOOL_PROGRAMS sonar-sim sonar-feed sonar-process sonar-replay sonar-export sonar-watch sonar-check sonar-bench)
foreach(program ${SONAR_NODE_PROGRAMS})
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT sonard)
  endif()
endforeach()
install(TARGETS ${SONAR_TOOL_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
# sonar-process finds it from its own folder.
set(python ${CMAKE_INSTALL_DATADIR}/sonard/python)
install(PROGRAMS tools/python/sonar-render DESTINATION ${python} COMPONENT tools)
install(DIRECTORY tools/python/sonar DESTINATION ${python} COMPONENT tools FILES_MATCHING PATTERN "*.py")
foreach(plugin sonar_cuda sonar_bench_cuda)
  if(TARGET ${plugin})
    # cuFFT is the machine's own, never ours to bring.
    set_target_properties(${plugin} PROPERTIES INSTALL_RPATH /usr/local/cuda/lib64)
    install(TARGETS ${plugin} LIBRARY DESTINATION lib/sonard COMPONENT cuda)
  endif()
endforeach()

if(TARGET sonar_mpi)
  install(TARGETS sonar_mpi LIBRARY DESTINATION lib/sonard COMPONENT mpi)
endif()

# ---- libsonar --------------------------------------------------------------------------------------
# Another program needs libsonar.so and sonar/session.h, a plugin include/sonar alone. Whoever links the static library,
# for what is inside, needs the contract header of each folder as well; these include each other by folder, so they have
# one of their own.
install(TARGETS sonar_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev)
install(TARGETS sonar ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/sonar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
foreach(header backend/open.h cbf/cbf.h ranks/cluster.h ranks/exchange.h config/config.h config/report.h core/core.h
    core/histogram.h core/node_clock.h core/rights.h core/stretch.h core/window.h
    detect/detect.h detect/pattern.h detect/sigma.h dft/dft.h elements/elements.h engine/engine.h health/health.h
    ingest/frame.h ingest/ingest.h manifold/manifold.h manifold/params.h mvdr_jacobi/mvdr_jacobi.h net/certificate.h
    analysis/beam/beam.h analysis/normalise/normalise.h
    net/net.h output/output.h pipeline/pipeline.h status/result.h status/specs.h
    status/topic.h train/train.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/libsonar/${folder} COMPONENT dev)
endforeach()
include(CMakePackageConfigHelpers)
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PC_PREFIX ${PC_PREFIX})
foreach(pc libsonar libsonar-static)
  configure_file(cmake/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()
configure_package_config_file(cmake/libsonar-config.cmake.in libsonar-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/libsonar
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(libsonar-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/libsonar-config.cmake ${PROJECT_BINARY_DIR}/libsonar-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/libsonar COMPONENT dev)

# ---- configuration, units --------------------------------------------------------------------------
# Paths in them depend on the prefix, which is only known for sure while installing.
install(CODE "set(SONAR_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
set(SONAR_BINARY_DIR \"${PROJECT_BINARY_DIR}\")
set(SONAR_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
set(SONAR_HAVE_CUDA \"$<TARGET_EXISTS:sonar_cuda>\")" ALL_COMPONENTS)
install(SCRIPT cmake/install_node.cmake COMPONENT sonard)
if(TARGET sonar_cuda)
  foreach(unit sonard sonard@)
    install(FILES service/gpu.conf DESTINATION lib/systemd/system/${unit}.service.d COMPONENT cuda)
  endforeach()
endif()

# ---- share -----------------------------------------------------------------------------------------
set(SONAR_DOC_DIR ${CMAKE_INSTALL_DATADIR}/doc/sonard)
install(DIRECTORY config/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sonard COMPONENT sonard
  PATTERN node.yaml EXCLUDE)
install(DIRECTORY docs/ DESTINATION ${SONAR_DOC_DIR} COMPONENT sonard FILES_MATCHING PATTERN "*.md"
  PATTERN images EXCLUDE)
include(cmake/manual.cmake)
# One file; the others' names lead to it.
set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES service/completion.bash DESTINATION ${completions} RENAME sonard COMPONENT sonard)
foreach(component NODE TOOL)
  foreach(program ${SONAR_${component}_PROGRAMS})
    if(TARGET ${program} AND NOT program STREQUAL sonard)
      set(link ${PROJECT_BINARY_DIR}/completions/${program})
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completions)
      file(CREATE_LINK sonard ${link} SYMBOLIC)
      install(FILES ${link} DESTINATION ${completions}
        COMPONENT $<IF:$<STREQUAL:${component},NODE>,sonard,tools>)
    endif()
  endforeach()
endforeach()
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  OUTPUT_FILE ${PROJECT_BINARY_DIR}/changelog.gz)
install(FILES README.md ${PROJECT_BINARY_DIR}/changelog.gz LICENSE COPYING.exception DESTINATION ${SONAR_DOC_DIR}
  COMPONENT sonard)
