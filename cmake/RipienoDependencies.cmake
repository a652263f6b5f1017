# Every library that Ripieno is built on; docs/dependencies.md gives the reason for each.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(Boost REQUIRED)  # headers
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)

find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# The Python that has LibTorch and Plotly, unless the caller points elsewhere with CMAKE_PREFIX_PATH: that of `pip install ./python`,
# or the venv that scripts/setup made.
if(DEFINED SKBUILD)
  set(ripieno_python "${Python_EXECUTABLE}")
elseif(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(ripieno_python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
# The folder of a Python module. pip builds in an environment of its own, which has Plotly; outside of it (-I) is the user's, with LibTorch.
function(ripieno_python_module NAME FOLDER)
  execute_process(COMMAND "${ripieno_python}" ${ARGN} -c "import importlib.util as u; print(u.find_spec('${NAME}').submodule_search_locations[0])"
                  OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${FOLDER} "${folder}" PARENT_SCOPE)
endfunction()

# Built into the program, for reports.
if(ripieno_python AND NOT RIPIENO_PLOTLY)
  ripieno_python_module(plotly plotly_folder)
endif()
find_file(RIPIENO_PLOTLY plotly.min.js PATHS "${plotly_folder}/package_data" DOC "plotly.min.js, of the Python package plotly")
if(NOT RIPIENO_PLOTLY)
  message(FATAL_ERROR "plotly.min.js is not there: run scripts/setup, or give -DRIPIENO_PLOTLY=FILE, that of the Python package plotly")
endif()

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # for a project that adds this one as a subdirectory
if(RIPIENO_TORCH AND NOT Torch_FOUND)
  if(DEFINED Torch_DIR)
    get_filename_component(torch_folder "${Torch_DIR}/../../.." ABSOLUTE)
  elseif(ripieno_python)
    ripieno_python_module(torch torch_folder -I)
    if(NOT torch_folder)
      message(FATAL_ERROR "${ripieno_python} has no torch: install it there first, for example with pip install torch==2.13.0")
    endif()
    list(APPEND CMAKE_PREFIX_PATH "${torch_folder}/share/cmake")
  endif()
  if(torch_folder)
    include(RipienoTorch)
    ripieno_cuda_torch("${torch_folder}")
  endif()
  if(NOT Torch_FOUND)
    find_package(Torch 2.11 REQUIRED)
  endif()
endif()
if(RIPIENO_TORCH)
  find_package(OpenMP REQUIRED)
endif()
