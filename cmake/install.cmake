# cmake --install: programs, the plugin where they look for it (../lib beside them), configurations and
# documents.
include(GNUInstallDirs)
install(TARGETS sonard sonar-sim sonar-replay sonar-watch sonar-check sonar-bench
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(plugin sonar_cuda sonar_bench_cuda)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION lib)
  endif()
endforeach()
install(DIRECTORY config/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sonard)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES README.md CHANGELOG.md LICENSE COPYING.exception DESTINATION ${CMAKE_INSTALL_DOCDIR})
