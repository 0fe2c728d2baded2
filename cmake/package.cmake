# cpack -G DEB (scripts/package): one package for each component of cmake/install.cmake.
set(SONAR_PACKAGE_REVISION 1 CACHE STRING "The packages' revision, after the version and a dash")
set(CPACK_PACKAGE_CONTACT "sonard maintainers <maintainers@users.noreply.a-seed-bcad158f.example>"
  CACHE STRING "Maintainer of the packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sonard)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own, the first line of its description
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON) # the configuration goes to /etc
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL sonard tools lib dev)
if(TARGET sonar_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
if(TARGET sonar_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
if(SONAR_DASHBOARD)
  list(APPEND CPACK_COMPONENTS_ALL dashboard)
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${SONAR_PACKAGE_REVISION})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(same "(= ${PROJECT_VERSION}-${SONAR_PACKAGE_REVISION})")

set(CPACK_DEBIAN_SONARD_PACKAGE_NAME sonard)
set(CPACK_DEBIAN_SONARD_PACKAGE_SECTION science)
set(CPACK_DEBIAN_SONARD_PACKAGE_SUGGESTS "sonard-tools, sonard-cuda, sonard-mpi")
set(CPACK_COMPONENT_SONARD_DESCRIPTION "real-time sonar beamforming daemon
sonard takes the samples of a hydrophone array from digitisers over ZeroMQ
and publishes azimuth spectra, beamformed conventionally and adaptively
(MVDR), and detections. It is made to run for months: bounded memory, every
lost sample counted by its cause.
.
The service is neither enabled nor started by installation: describe the
array in /etc/sonard/sonard.yaml first.")
set(scripts ${PROJECT_SOURCE_DIR}/service/debian)
set(CPACK_DEBIAN_SONARD_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm
  ${PROJECT_BINARY_DIR}/debian/conffiles)
file(WRITE ${PROJECT_BINARY_DIR}/debian/conffiles "/etc/sonard/sonard.yaml\n")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME sonard-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "sonard, libsonar${PROJECT_VERSION_MAJOR}")
# For sonar-render, which draws sonar-process's pictures.
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "python3, python3-matplotlib, python3-numpy, python3-h5py, python3-zmq")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "simulator, viewer, player and benchmark for sonard
sonar-process makes bearing-time records, lofargrams and tables of contacts
of a recording; sonar-feed sends samples of a sound card, a pipe, the
network or an instrument; sonar-sim sends what a simulated hydrophone array
hears, sonar-replay a recording, which sonar-export writes as WAV or HDF5;
sonar-watch shows what sonard publishes in a terminal, sonar-check compares
it with the truth, sonar-bench times the stages.")

set(CPACK_DEBIAN_LIB_PACKAGE_NAME libsonar${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
# CPack would give plugins a shlibs file as well.
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs
  "libsonar ${PROJECT_VERSION_MAJOR} libsonar${PROJECT_VERSION_MAJOR} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_COMPONENT_LIB_DESCRIPTION "beamforming of sonard, as a shared library
Samples of a hydrophone array in, the messages that sonard publishes out, in
one process and without sockets: for programs in C and in Python.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libsonar-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIB_PACKAGE_NAME} ${same}, \
libfftw3-dev, libzmq3-dev (>= 4.3), libyaml-dev, libcjson-dev, libsodium-dev")
if(MICROHTTPD_FOUND)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libmicrohttpd-dev")
endif()
set(CPACK_COMPONENT_DEV_DESCRIPTION "headers of the library behind sonard, and the static library
The header of the shared library for programs, the headers from which a
plugin for another device is written, and the static library with its
headers, for programs that run its stages themselves.")

# cuFFT comes from NVIDIA's own packages, one name for each release of CUDA, or from an installation
# without packages, for which equivs or `dpkg --force-depends` is the administrator's choice. The plugin
# finds it in /usr/local/cuda/lib64 either way; nothing of NVIDIA's is in the package.
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME sonard-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/science)
# Only sonar-bench compares with cuBLAS.
set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS "libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}")
if(TARGET sonar_cuda)
  string(REGEX MATCH "^[0-9]+" cuda_major ${CMAKE_CUDA_COMPILER_VERSION})
  set(cufft)
  foreach(minor RANGE 0 3)
    list(APPEND cufft "libcufft-${cuda_major}-${minor}")
  endforeach()
  list(JOIN cufft " | " cufft)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "sonard ${same}, libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 11), ${cufft}")
endif()
set(CPACK_COMPONENT_CUDA_DESCRIPTION "NVIDIA GPU plugin of sonard
With this plugin sonard runs its stages on an NVIDIA GPU of compute
capability 7.5 or newer, or those that are faster there. It needs the
driver and cuFFT of CUDA's own packages.")

# mpirun is in Open MPI's programs, which the plugin alone does not need.
set(CPACK_DEBIAN_MPI_PACKAGE_NAME sonard-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "sonard ${same}, openmpi-bin")
set(CPACK_COMPONENT_MPI_DESCRIPTION "Open MPI plugin of sonard
With this plugin several processes of sonard, on one node or many, share
one array: mpirun starts them, and each takes a block of the channels.")

# Debian has neither ZeroMQ for Node nor, in all its releases, a ws as new: both are inside.
set(CPACK_DEBIAN_DASHBOARD_PACKAGE_NAME sonard-dashboard)
set(CPACK_DEBIAN_DASHBOARD_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DASHBOARD_PACKAGE_DEPENDS "nodejs (>= 18)")
set(CPACK_DEBIAN_DASHBOARD_PACKAGE_SUGGESTS sonard)
set(CPACK_COMPONENT_DASHBOARD_DESCRIPTION "page in a browser that shows what sonard publishes
sonar-dashboard subscribes to running sonards and serves a page that shows
bearing over time, azimuth spectra, lofargrams, the near field, contacts,
hydrophones and the daemon's health.")

# Each package has a copyright and a changelog of its own, as Debian's policy wants them.
file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog
  "sonard (${PROJECT_VERSION}-${SONAR_PACKAGE_REVISION}) unstable; urgency=medium\n\n"
  "  * See CHANGELOG.md in /usr/share/doc/sonard.\n\n"
  " -- ${CPACK_PACKAGE_CONTACT}  Sat, 21 Nov 2026 00:00:00 +0000\n")
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/debian/changelog)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(copyright ${PROJECT_SOURCE_DIR}/service/debian/copyright)
  if(EXISTS ${copyright}.${name})
    set(copyright ${copyright}.${name}) # it has parts of others inside
  endif()
  install(FILES ${copyright} RENAME copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
  install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME changelog.Debian.gz COMPONENT ${component})
  install(FILES service/debian/overrides/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
    COMPONENT ${component} OPTIONAL)
endforeach()
# Debian's policy on descriptions, which lintian checks later.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} component)
  string(REPLACE ";" "," lines "${CPACK_COMPONENT_${component}_DESCRIPTION}")
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line ${lines})
    string(LENGTH "${line}" length)
    if(length GREATER 79)
      message(FATAL_ERROR "a line of a package's description has ${length} characters, of at most 79: ${line}")
    endif()
  endforeach()
endforeach()
include(CPack)
