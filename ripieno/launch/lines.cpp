#include "ripieno/launch/lines.h"

#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <utility>
#include <vector>

namespace ripieno::launch {

constexpr std::size_t longest_line = 1 << 20;  // bytes

Task<> read_lines(asio::posix::stream_descriptor* pipe, OnLine on_line) {
  std::vector<char> chunk(16 << 10);
  const asio::mutable_buffer buffer(chunk.data(), chunk.size());
  std::string line;
  for (;;) {
    asio::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::size_t got = co_await pipe->async_read_some(buffer, token);
    if (error) break;
    for (std::size_t i = 0; i < got; ++i) {
      if (chunk[i] != '\n') line += chunk[i];
      if (chunk[i] == '\n' || line.size() == longest_line) on_line(std::exchange(line, {}));
    }
  }
  if (!line.empty()) on_line(line);
  asio::error_code ignored;
  pipe->close(ignored);
}

}  // namespace ripieno::launch
