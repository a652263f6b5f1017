#include "ripieno/launch/lines.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <utility>
#include <vector>

#include "ripieno/core/error.h"

namespace ripieno::launch {

Task<> read_bytes(asio::posix::stream_descriptor* pipe, OnBytes on_bytes) {
  std::vector<char> chunk(64 << 10);
  const asio::mutable_buffer buffer(chunk.data(), chunk.size());
  for (;;) {
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::size_t got = co_await pipe->async_read_some(buffer, token);
    if (error) break;
    on_bytes({chunk.data(), got});
  }
  asio::error_code ignored;
  pipe->close(ignored);
}

Task<> read_lines(asio::posix::stream_descriptor* pipe, OnLine on_line, std::size_t longest) {
  std::string line;
  bool was_cut = false;  // the line before: what is left of it may be its end alone
  const auto take = [&](std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n'), size = std::min({end, bytes.size(), longest - line.size()});
      line += bytes.substr(0, size);
      bytes.remove_prefix(size);
      const bool has_ended = !bytes.empty() && bytes.front() == '\n';
      if (has_ended) bytes.remove_prefix(1);
      if (has_ended && was_cut && line.empty()) {
        was_cut = false;
      } else if (has_ended || line.size() == longest) {
        was_cut = !has_ended;
        on_line(std::exchange(line, {}));
      }
    }
  };
  Task<> reading = read_bytes(pipe, take);
  co_await std::move(reading);
  if (!line.empty()) on_line(line);
}

std::string bytes_as_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return text;
}

std::string bytes_from_text(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      bytes += text[i];
      continue;
    }
    const unsigned char second = ++i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    if ((first != 0xC2 && first != 0xC3) || (second & 0xC0) != 0x80)
      fail(ErrorKind::data, "the output of a worker came damaged: a character of it stands for no byte");
    bytes += static_cast<char>(((first & 0x03) << 6) | (second & 0x3F));
  }
  return bytes;
}

}  // namespace ripieno::launch
