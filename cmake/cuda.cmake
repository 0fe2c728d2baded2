# The CUDA plugin, libsonar-cuda.so: found and loaded at run time, so nothing else depends on it.
set(SONAR_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO (if there is an nvcc), ON or OFF")
set_property(CACHE SONAR_CUDA PROPERTY STRINGS AUTO ON OFF)
# "90" is machine code and PTX, from which a driver compiles for GPUs newer than the list.
set(SONAR_CUDA_ARCHITECTURES "75-real;80-real;86-real;89-real;90" CACHE STRING
  "GPU architectures, in CMake's notation")

if(NOT SONAR_CUDA)
  message(STATUS "CUDA plugin: not built (SONAR_CUDA=${SONAR_CUDA})")
  return()
endif()

include(CheckLanguage)
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(SONAR_NVCC nvcc HINTS ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
  if(SONAR_NVCC)
    set(ENV{CUDACXX} ${SONAR_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${SONAR_CUDA_ARCHITECTURES})
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SONAR_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA plugin: not built, there is no nvcc (set CUDACXX if it is not on the PATH)")
    return()
  endif()
  message(FATAL_ERROR "SONAR_CUDA is ON but there is no nvcc; set CUDACXX if it is not on the PATH")
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA plugin: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.cu)
# Its own copies of the little it needs from libsonar, which it must not link: errors and views of
# buffers, the taper, and what both sides ask of a specification and of parameters.
add_library(sonar_cuda MODULE ${cuda_sources} src/core/error.c src/core/library.c src/core/memory.c
  src/dft/taper.c src/dft/common.c src/cbf/common.c src/steer/common.c
  src/mvdr_jacobi/common.c src/mvdr_jacobi/cuda/device.c src/mvdr_jacobi/route.c)
foreach(stage dft cbf steer mvdr_jacobi)
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/${stage}/${stage}_cuda.cu)
    string(TOUPPER SONAR_HAVE_${stage}_CUDA have)
    target_compile_definitions(sonar_cuda PRIVATE ${have})
  endif()
endforeach()
target_include_directories(sonar_cuda PRIVATE include src)
target_compile_definitions(sonar_cuda PRIVATE _GNU_SOURCE)
target_compile_options(sonar_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -ffp-contract=fast -fno-math-errno -fno-trapping-math>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(SONAR_WERROR)
  target_compile_options(sonar_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:C>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
set_target_properties(sonar_cuda PROPERTIES OUTPUT_NAME sonar-cuda
  C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  CUDA_RUNTIME_LIBRARY Static)
target_link_libraries(sonar_cuda PRIVATE CUDA::cufft ${CMAKE_DL_LIBS})
target_link_options(sonar_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--no-undefined)
