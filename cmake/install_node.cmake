# While installing: what belongs to a node and names the prefix. CMAKE_INSTALL_PREFIX is the one given to
# this installation; file(INSTALL) puts DESTDIR in front.
set(prefix ${CMAKE_INSTALL_PREFIX})
set(BINDIR ${prefix}/${SONAR_BINDIR})
set(DOCDIR ${prefix}/share/doc/sonard)
set(SYSCONFDIR ${prefix}/etc)
if(prefix STREQUAL "/usr")
  set(SYSCONFDIR /etc) # the file system hierarchy standard's exception
endif()
set(made ${SONAR_BINARY_DIR}/installed)

# CONFIG, DIRECTORY and FOR_INSTANCE say which array the unit is for.
set(CONFIG sonard)
set(DIRECTORY sonard)
set(FOR_INSTANCE "")
configure_file(${SONAR_SOURCE_DIR}/service/sonard.service.in ${made}/sonard.service @ONLY)
set(CONFIG %i)
set(DIRECTORY sonard-%i)
set(FOR_INSTANCE " of %i")
configure_file(${SONAR_SOURCE_DIR}/service/sonard.service.in ${made}/sonard@.service @ONLY)
configure_file(${SONAR_SOURCE_DIR}/service/mpi.conf.in ${made}/mpi.conf @ONLY)

file(INSTALL ${made}/sonard.service ${made}/sonard@.service
  DESTINATION ${prefix}/lib/systemd/system)
file(INSTALL ${made}/mpi.conf ${SONAR_SOURCE_DIR}/service/gpu.conf DESTINATION ${DOCDIR}/examples)
file(INSTALL ${SONAR_SOURCE_DIR}/config/node.yaml DESTINATION ${SYSCONFDIR}/sonard RENAME sonard.yaml)
file(MAKE_DIRECTORY $ENV{DESTDIR}${SYSCONFDIR}/sonard/keys)
file(CHMOD $ENV{DESTDIR}${SYSCONFDIR}/sonard/keys PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
