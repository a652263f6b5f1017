#include "ripieno/transport/shared/arena.h"

#include <unistd.h>

#include <algorithm>

namespace ripieno::transport {
namespace {

constexpr std::size_t least_region = 64 << 20;  // bytes; untouched memory costs nothing

std::size_t whole_lines(std::size_t bytes) { return round_up(std::max<std::size_t>(bytes, 1), line_bytes); }

}  // namespace

std::shared_ptr<std::byte> SharedArena::take(std::size_t bytes) {
  const std::size_t size = whole_lines(bytes);
  std::byte* const data = cut(size, Pages::large);
  if (!data) return nullptr;
  return {data, [arena = shared_from_this(), size](std::byte* taken) { arena->free(taken, size); }};
}

std::byte* SharedArena::keep(std::size_t bytes) { return cut(whole_lines(bytes), Pages::as_touched); }

std::byte* SharedArena::cut(std::size_t bytes, Pages pages) {
  const std::lock_guard lock(mutex_);
  for (Region& region : regions_) {
    if (std::byte* const data = cut(region, bytes, pages)) return data;
  }
  return grow(bytes) ? cut(regions_.back(), bytes, pages) : nullptr;
}

/// The first hole that is large enough; null if there is none.
std::byte* SharedArena::cut(Region& region, std::size_t bytes, Pages pages) {
  const auto hole = std::find_if(region.free.begin(), region.free.end(),
                                 [bytes](const auto& entry) { return entry.second >= bytes; });
  if (hole == region.free.end()) return nullptr;
  const auto [offset, size] = *hole;
  region.free.erase(hole);
  if (size > bytes) region.free.emplace(offset + bytes, size - bytes);
  std::byte* const data = region.memory.data() + offset;
  if (pages == Pages::large && bytes >= large_page_bytes) region.memory.use_large_pages(data, bytes);
  return data;
}

bool SharedArena::grow(std::size_t bytes) {
  if (regions_.size() == max_regions) return false;
  Region region;
  try {
    region.memory = SharedMemory::make(std::max(bytes + line_bytes, least_region));
  } catch (const Error&) {
    return false;
  }
  // 1. The region begins with the check word, by which a peer recognises it.
  ControlHead& head = control_->head();
  std::memcpy(region.memory.data(), &head.word, sizeof head.word);
  region.free.emplace(line_bytes, region.memory.size() - line_bytes);
  // 2. Its description is written before it is counted.
  const auto index = static_cast<std::uint32_t>(regions_.size());
  head.region[index] = {region.memory.size(), region.memory.fd()};
  head.regions.store(index + 1, std::memory_order_release);
  regions_.push_back(std::move(region));
  return true;
}

void SharedArena::free(std::byte* data, std::size_t bytes) {
  if (::getpid() != process_) return;
  const std::lock_guard lock(mutex_);
  for (Region& region : regions_) {
    if (data < region.memory.data() || data >= region.memory.data() + region.memory.size()) continue;
    region.memory.clear(data, bytes);
    auto hole = region.free.emplace(static_cast<std::size_t>(data - region.memory.data()), bytes).first;
    const auto next = std::next(hole);
    if (next != region.free.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      region.free.erase(next);
    }
    if (hole != region.free.begin()) {
      const auto before = std::prev(hole);
      if (before->first + before->second == hole->first) {
        before->second += hole->second;
        region.free.erase(hole);
      }
    }
    return;
  }
}

std::optional<Place> SharedArena::find(ConstBytes bytes) const {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    const SharedMemory& memory = regions_[i].memory;
    if (bytes.data() < memory.data() || bytes.data() >= memory.data() + memory.size()) continue;
    const auto offset = static_cast<std::uint64_t>(bytes.data() - memory.data());
    if (bytes.size() > memory.size() - offset) return std::nullopt;
    return Place{i, offset};
  }
  return std::nullopt;
}

std::byte* PeerRegions::at(Place place, std::uint64_t bytes) {
  const std::uint32_t there = std::min<std::uint32_t>(head_->regions.load(std::memory_order_acquire), max_regions);
  if (place.region >= there) {
    fail(ErrorKind::mismatch, "shared memory: bytes in region ", place.region, " of ", there);
  }
  while (regions_.size() <= place.region) {
    const ControlHead::Region region = head_->region[regions_.size()];
    SharedMemory memory = SharedMemory::open(pid_, region.fd, 0, region.bytes, SharedMemory::Access::write);
    if (region.bytes < line_bytes || std::memcmp(memory.data(), &head_->word, sizeof head_->word) != 0) {
      fail(ErrorKind::mismatch, "shared memory: region ", regions_.size(), " is not the peer's");
    }
    regions_.push_back(std::move(memory));
  }
  const SharedMemory& memory = regions_[place.region];
  if (place.offset > memory.size() || bytes > memory.size() - place.offset) {
    fail(ErrorKind::mismatch, "shared memory: ", bytes, " bytes at ", place.offset, " of a region of ", memory.size());
  }
  return memory.data() + place.offset;
}

}  // namespace ripieno::transport
