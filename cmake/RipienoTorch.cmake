# ripieno_cuda_torch(FOLDER): LibTorch of a Python package that was built with CUDA, as find_package(Torch) would give it: the target torch,
# TORCH_LIBRARIES, TORCH_INSTALL_PREFIX and Torch_FOUND. PyTorch's own configuration of such a build asks for the whole CUDA toolkit, of
# which nothing is needed here. Of other builds it does nothing.
macro(ripieno_cuda_torch FOLDER)
  if(EXISTS "${FOLDER}/lib/libtorch_cuda.so" AND NOT TARGET torch)
    file(STRINGS "${FOLDER}/version.py" ripieno_torch_version REGEX "^__version__")
    string(REGEX MATCH "[0-9.]+[0-9]" ripieno_torch_version "${ripieno_torch_version}")
    if(ripieno_torch_version VERSION_LESS 2.11)
      message(FATAL_ERROR "${FOLDER} is of PyTorch ${ripieno_torch_version}; 2.11 or later is needed")
    endif()
    set(TORCH_INSTALL_PREFIX "${FOLDER}")
    set(TORCH_LIBRARIES torch)
    set(Torch_FOUND TRUE)
    add_library(torch INTERFACE IMPORTED GLOBAL)
    target_include_directories(torch INTERFACE "${FOLDER}/include" "${FOLDER}/include/torch/csrc/api/include")
    target_compile_definitions(torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
    # libtorch.so needs that of the CPU and that of CUDA, which registers itself when it is loaded. It also has functions of libstdc++, of
    # std::filesystem for one, that do not work with a later one's others: who looks for them must find the real one first.
    target_link_libraries(torch INTERFACE -Wl,--no-as-needed -lstdc++ "${FOLDER}/lib/libtorch.so" -Wl,--as-needed
                                          "${FOLDER}/lib/libtorch_cpu.so" "${FOLDER}/lib/libc10.so")
    message(STATUS "LibTorch ${ripieno_torch_version} with CUDA, in ${FOLDER}")
  endif()
endmacro()
