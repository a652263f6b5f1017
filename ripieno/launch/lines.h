// Reads what other processes say, as it comes or line by line.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ripieno/core/runtime.h"

namespace ripieno::launch {

using OnBytes = std::function<void(std::string_view bytes)>;
using OnLine = std::function<void(const std::string& line)>;

/// Calls `on_bytes` with what comes, until the pipe has ended or is closed; then closes it.
Task<> read_bytes(asio::posix::stream_descriptor* pipe, OnBytes on_bytes);

inline constexpr std::size_t longest_line = 64 << 20;  ///< bytes, of a program that may never end its line

/// The same with each line, without its end. Longer ones are cut into several.
Task<> read_lines(asio::posix::stream_descriptor* pipe, OnLine on_line, std::size_t longest = longest_line);

/// Any bytes as text in UTF-8, such as JSON needs: each as the character of its number. And back: Error(data) if it is
/// no such text.
std::string bytes_as_text(std::string_view bytes);
std::string bytes_from_text(std::string_view text);

}  // namespace ripieno::launch
