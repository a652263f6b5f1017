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

find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# Built into the program, for reports: from the venv that scripts/setup made, unless the caller says where it lies.
file(GLOB plotly_folders "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/plotly/package_data")
find_file(RIPIENO_PLOTLY plotly.min.js PATHS ${plotly_folders} DOC "plotly.min.js, of the Python package plotly" REQUIRED)

if(RIPIENO_TORCH AND NOT Torch_FOUND)
  # The venv that scripts/setup made, unless the caller points elsewhere with CMAKE_PREFIX_PATH.
  if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python" AND NOT DEFINED Torch_DIR)
    execute_process(COMMAND "${PROJECT_SOURCE_DIR}/.venv/bin/python" -c
                            "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                    OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND CMAKE_PREFIX_PATH "${torch_folder}/share/cmake")
  endif()
  find_package(Torch 2.13 REQUIRED)
endif()
if(RIPIENO_TORCH)
  find_package(OpenMP REQUIRED)
endif()
