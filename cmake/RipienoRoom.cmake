# ripieno_room(NAME USES room... [LINK library...] [TORCH])
# One static library per room: ripieno_NAME (exported as Ripieno::NAME), from every .cpp in its folder and the folders in it.
# A room with TORCH compiles against LibTorch through one shared precompiled header.
add_library(ripieno_flags INTERFACE)
target_compile_options(ripieno_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fno-math-errno)
# With the compiler that the tests run with; others may warn of more, and this one does, wrongly, under sanitizers.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND NOT RIPIENO_SANITIZE)
  target_compile_options(ripieno_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # for the fuzz targets; Asio 1.22 does not see by itself that it has coroutines
  add_compile_definitions(ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
endif()
if(RIPIENO_SANITIZE)
  target_compile_options(ripieno_flags INTERFACE -fsanitize=${RIPIENO_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(ripieno_flags INTERFACE -fsanitize=${RIPIENO_SANITIZE})
  if(RIPIENO_SANITIZE_EXCEPT)
    target_compile_options(ripieno_flags INTERFACE -fno-sanitize=${RIPIENO_SANITIZE_EXCEPT})
  endif()
  if(RIPIENO_SANITIZE STREQUAL "thread")
    target_compile_options(ripieno_flags INTERFACE -Wno-tsan)  # Asio's fences, which it cannot see and does not need
  endif()
  # g++ 12 warns of frames of coroutines that Asio allocates, wherever it takes that into the coroutine itself.
  target_compile_options(ripieno_flags INTERFACE -Wno-mismatched-new-delete)
endif()

function(ripieno_room NAME)
  cmake_parse_arguments(ROOM "TORCH" "" "USES;LINK" ${ARGN})
  set(target ripieno_${NAME})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cpp")
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
  elseif(sources)
    ripieno_together(${target} 12)
    if(NOT NAME MATCHES "^(codec|optim|data|report)$")
      ripieno_asio_header(${target})
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY RIPIENO_ROOMS ${target})
endfunction()

# A library that only TARGET's own sources see. Who links an installed Ripieno links NAME, and looks for nothing at configure time.
function(ripieno_hidden TARGET LIBRARY NAME)
  target_link_libraries(${TARGET} PRIVATE $<BUILD_INTERFACE:${LIBRARY}> $<INSTALL_INTERFACE:${NAME}>)
endfunction()

# Of TARGET's code nothing runs long: it is compiled in half the time. With -O1 g++ 12 warns, wrongly, of Asio's coroutine frames.
function(ripieno_compiled_quickly TARGET)
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
endfunction()

# Files of TARGET compiled as one, up to MOST at a time: nearly all of a file's time goes into the headers that it reads and the
# templates that it makes of them. Not those that Highway has read once for each instruction set, nor those with options of their own.
# Not CMake's unity build: that names files by their whole path, by which ccache does not know them again in another folder.
function(ripieno_together TARGET MOST)
  if(NOT RIPIENO_TOGETHER)
    return()
  endif()
  get_target_property(sources ${TARGET} SOURCES)
  set(parts 0)
  set(count 0)
  foreach(source IN LISTS sources)
    file(REAL_PATH "${source}" source)
    file(STRINGS "${source}" per_instruction_set REGEX "foreach_target" LIMIT_COUNT 1)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    if(per_instruction_set OR options)
      continue()
    endif()
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${source}")
    math(EXPR part "${count} / ${MOST}")
    math(EXPR count "${count} + 1")
    string(APPEND includes_${part} "#include \"${name}\"\n")
    set(parts ${part})
    set_source_files_properties("${source}" PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  foreach(part RANGE ${parts})
    set(together "${CMAKE_BINARY_DIR}/together/${TARGET}_${part}.cpp")
    file(GENERATE OUTPUT "${together}" CONTENT "${includes_${part}}")
    target_sources(${TARGET} PRIVATE "${together}")
  endforeach()
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)  # it takes files that are compiled as one for headers
endfunction()

# What is precompiled once and serves many targets; all of them, executables too, are compiled as it was.
function(ripieno_precompiled NAME)
  file(WRITE "${CMAKE_BINARY_DIR}/${NAME}.cpp" "")
  add_library(${NAME} STATIC "${CMAKE_BINARY_DIR}/${NAME}.cpp")
  target_link_libraries(${NAME} PRIVATE ripieno_flags)
  target_include_directories(${NAME} PRIVATE "${ASIO_INCLUDE_DIR}")
  target_compile_definitions(${NAME} PRIVATE ASIO_DISABLE_STD_ALIGNED_ALLOC)
  target_compile_options(${NAME} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> -fPIC)
  target_precompile_headers(${NAME} PRIVATE ${ARGN})
endfunction()

function(ripieno_take_precompiled TARGET NAME)
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> -fPIC)
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

# What tests read, most of it GoogleTest's and Asio's.
function(ripieno_test_header TARGET)
  if(NOT TARGET ripieno_test_pch)
    ripieno_precompiled(ripieno_test_pch <gtest/gtest.h> <asio/awaitable.hpp> <asio/co_spawn.hpp> <asio/io_context.hpp> <asio/ip/tcp.hpp>
                        <asio/post.hpp> <asio/read.hpp> <asio/redirect_error.hpp> <asio/use_awaitable.hpp> <asio/write.hpp>)
    target_link_libraries(ripieno_test_pch PRIVATE GTest::gtest)
  endif()
  ripieno_take_precompiled(${TARGET} ripieno_test_pch)
endfunction()

# LibTorch's headers take 20 s to read. Even precompiled each file takes 8 s for what they leave to its end.
function(ripieno_torch_header TARGET)
  if(NOT TARGET ripieno_torch_pch)
    ripieno_precompiled(ripieno_torch_pch <torch/torch.h> <asio/awaitable.hpp> <asio/io_context.hpp> <asio/use_awaitable.hpp>)
    target_link_libraries(ripieno_torch_pch PRIVATE ${TORCH_LIBRARIES})
    # Not by ccache: with a copy that another clone had made, g++ took all memory and was killed. LibTorch guards its headers by
    # #pragma once alone, so where g++ does not know them again in what is precompiled, it reads them over and over.
    set_target_properties(ripieno_torch_pch PROPERTIES CXX_COMPILER_LAUNCHER "")
  endif()
  ripieno_take_precompiled(${TARGET} ripieno_torch_pch)
  ripieno_together(${TARGET} 9)
endfunction()
