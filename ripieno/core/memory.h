// Where numbers that travel may lie.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace ripieno {

/// Gives `bytes` zeros, aligned to 64 bytes, owned by whoever holds them; e.g. an endpoint's registered memory
/// (transport/endpoint.h). Empty: memory of one's own.
using Memory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// The process's own, as Memory gives it.
std::shared_ptr<std::byte> own_memory(std::size_t bytes);

}  // namespace ripieno
