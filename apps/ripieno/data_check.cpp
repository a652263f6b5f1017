#include "apps/ripieno/data_check.h"

#include <algorithm>
#include <array>
#include <asio/ip/host_name.hpp>
#include <iomanip>
#include <string_view>
#include <vector>

#include "ripieno/core/hash.h"
#include "ripieno/data/dataset.h"
#include "ripieno/data/partition.h"

namespace ripieno::program {
namespace {

constexpr std::uint32_t most_looked_at = 2000;  // images of a split, evenly from the first to the last

/// What a rank reads of a split.
struct SplitDigest {
  std::uint64_t samples = 0, digest = 0;
  bool operator==(const SplitDigest&) const = default;
};

SplitDigest look_at(const Settings& settings, data::Split split) {
  const std::unique_ptr<data::Dataset> data = data::open_dataset(settings->data_name, split, settings->data);
  const std::uint32_t samples = data->size(), looked_at = std::min(samples, most_looked_at);
  std::vector<std::uint8_t> pixels(data->shape().pixels());
  const std::vector<std::uint8_t> labels = data::labels_of(*data);
  std::string all = text(data->classes(), ' ', pixels.size(), ' ');
  all.append(labels.begin(), labels.end());
  for (std::uint64_t i = 0; i < looked_at; ++i) {
    const auto index = looked_at > 1 ? static_cast<std::uint32_t>(i * (samples - 1) / (looked_at - 1)) : 0;
    data->read(index, pixels);
    all.append(pixels.begin(), pixels.end());
    if (all.size() > 1 << 20) all = std::to_string(hash(all));
  }
  return {samples, hash(all)};
}

std::string described(const SplitDigest& found, const SplitDigest& other) {
  if (found.samples != other.samples) return std::to_string(found.samples);
  return text(found.samples, " (digest ", std::hex, std::setw(16), std::setfill('0'), found.digest, ")");
}

}  // namespace

Task<> check_same_data(const Settings& settings, collective::Communicator comm) {
  if (comm.size() == 1 || data::find_dataset(settings->data_name).generated) co_return;
  constexpr std::array splits{data::Split::train, data::Split::test};
  for (const data::Split split : splits) {
    const std::vector<SplitDigest> all = co_await comm.all_gather(look_at(settings, split));
    const auto other = std::find_if(all.begin(), all.end(), [&](const SplitDigest& one) { return one != all[0]; });
    if (other == all.end()) continue;
    const auto rank = static_cast<std::size_t>(other - all.begin());
    const std::vector<std::string> hosts = co_await comm.all_gather(asio::ip::host_name());
    fail(ErrorKind::mismatch, "rank ", rank, " on ", hosts[rank], " reads ", described(*other, all[0]), " ",
         data::name(split), " images of ", settings->data_name, ", and rank 0 on ", hosts[0], " reads ",
         described(all[0], *other), ": all ranks need the same files in data.folder");
  }
}

}  // namespace ripieno::program
