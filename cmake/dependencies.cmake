# Libraries by pkg-config. scripts/install-packages installs them on Debian.
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
pkg_check_modules(FFTW REQUIRED IMPORTED_TARGET fftw3f)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.3)
# zmq.h needs none of the other headers that libzmq.pc names, and CMake lists them in another order
# when it configures again: then everything would be compiled again.
set_target_properties(PkgConfig::ZMQ PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${ZMQ_INCLUDEDIR}" INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(SNDFILE REQUIRED IMPORTED_TARGET sndfile)

# Optional: without it metrics.listen is refused.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd)
if(NOT MICROHTTPD_FOUND)
  message(STATUS "metrics: libmicrohttpd is missing, so sonard will not answer Prometheus")
endif()

# Optional: without it no HDF5 is written. Debian's pkg-config file names the library without its
# high-level part, which has the dimension scales.
pkg_check_modules(HDF5 IMPORTED_TARGET hdf5)
find_library(HDF5_HL NAMES hdf5_hl hdf5_serial_hl HINTS ${HDF5_LIBRARY_DIRS})
if(NOT HDF5_FOUND OR NOT HDF5_HL)
  set(HDF5_FOUND FALSE)
  message(STATUS "export: libhdf5 is missing, so sonar-export and sonar-process will write no HDF5")
endif()

# Optional: without it sonard tells the service manager nothing, and the journal gets plain lines.
pkg_check_modules(SYSTEMD IMPORTED_TARGET libsystemd)
if(NOT SYSTEMD_FOUND)
  message(STATUS "systemd: libsystemd is missing, so sonard will not report to a service manager")
endif()

# Optional: without it sonar-feed reads a sound card only through a pipe.
pkg_check_modules(ALSA IMPORTED_TARGET alsa)
if(NOT ALSA_FOUND)
  message(STATUS "feed: libasound2 is missing, so sonar-feed will not open sound cards (alsa:DEVICE)")
endif()
