# ripieno_room(NAME USES room... [LINK library...] [TORCH])
# One static library per room: ripieno_NAME (exported as Ripieno::NAME), from every .cpp in its folder.
# A room with TORCH compiles against LibTorch through one shared precompiled header.
add_library(ripieno_flags INTERFACE)
target_compile_options(ripieno_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fno-math-errno)
if(RIPIENO_SANITIZE)
  target_compile_options(ripieno_flags INTERFACE -fsanitize=${RIPIENO_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(ripieno_flags INTERFACE -fsanitize=${RIPIENO_SANITIZE})
  if(RIPIENO_SANITIZE STREQUAL "thread")
    target_compile_options(ripieno_flags INTERFACE -Wno-tsan)  # Asio's fences, which it cannot see and does not need
  endif()
endif()

function(ripieno_room NAME)
  cmake_parse_arguments(ROOM "TORCH" "" "USES;LINK" ${ARGN})
  set(target ripieno_${NAME})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cpp")
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:ripieno_flags>)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(Ripieno::${NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME})
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  foreach(used IN LISTS ROOM_USES)
    target_link_libraries(${target} ${scope} ripieno_${used})
  endforeach()
  target_link_libraries(${target} ${scope} ${ROOM_LINK})
  if(ROOM_TORCH)
    target_link_libraries(${target} ${scope} "$<BUILD_INTERFACE:${TORCH_LIBRARIES}>" "$<INSTALL_INTERFACE:Ripieno::torch>")
    if(sources)
      ripieno_torch_header(${target})
    endif()
  elseif(sources AND NOT NAME MATCHES "^(codec|optim|data|report)$")
    ripieno_asio_header(${target})
  endif()
  set_property(GLOBAL APPEND PROPERTY RIPIENO_ROOMS ${target})
endfunction()

# What is precompiled once and serves many targets; all of them, executables too, are compiled as it was.
function(ripieno_precompiled NAME)
  file(WRITE "${CMAKE_BINARY_DIR}/${NAME}.cpp" "")
  add_library(${NAME} STATIC "${CMAKE_BINARY_DIR}/${NAME}.cpp")
  target_link_libraries(${NAME} PRIVATE ripieno_flags)
  target_include_directories(${NAME} PRIVATE "${ASIO_INCLUDE_DIR}")
  target_compile_definitions(${NAME} PRIVATE ASIO_DISABLE_STD_ALIGNED_ALLOC)
  target_compile_options(${NAME} PRIVATE -fpch-preprocess -fPIC)
  target_precompile_headers(${NAME} PRIVATE ${ARGN})
endfunction()

function(ripieno_take_precompiled TARGET NAME)
  target_compile_options(${TARGET} PRIVATE -fpch-preprocess -fPIC)
  target_precompile_headers(${TARGET} REUSE_FROM ${NAME})
endfunction()

# Asio's headers take 2 s to read.
function(ripieno_asio_header TARGET)
  if(NOT TARGET ripieno_asio_pch)
    ripieno_precompiled(ripieno_asio_pch <asio/awaitable.hpp> <asio/co_spawn.hpp> <asio/io_context.hpp> <asio/ip/tcp.hpp> <asio/post.hpp>
                        <asio/read.hpp> <asio/redirect_error.hpp> <asio/use_awaitable.hpp> <asio/write.hpp> <functional> <map> <string>
                        <vector>)
  endif()
  ripieno_take_precompiled(${TARGET} ripieno_asio_pch)
endfunction()

# LibTorch's headers take 20 s to read. Even precompiled each file takes 8 s for what they leave to its end, so a few are
# compiled as one.
function(ripieno_torch_header TARGET)
  if(NOT TARGET ripieno_torch_pch)
    ripieno_precompiled(ripieno_torch_pch <torch/torch.h> <asio/awaitable.hpp> <asio/io_context.hpp> <asio/use_awaitable.hpp>)
    target_link_libraries(ripieno_torch_pch PRIVATE ${TORCH_LIBRARIES})
  endif()
  ripieno_take_precompiled(${TARGET} ripieno_torch_pch)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  target_compile_options(${TARGET} PRIVATE -Wno-subobject-linkage)  # it takes files that are compiled as one for headers
endfunction()
