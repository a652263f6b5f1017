#include "apps/ripieno/rank_folder.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ripieno/collective/execute.h"
#include "ripieno/core/file.h"
#include "ripieno/rendezvous/greeting.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = 4 << 20;  // of a file, in one message

struct GatheredFile {
  std::string name;
  std::uint64_t bytes = 0;
};

std::string to_text(const std::vector<GatheredFile>& files) {
  nlohmann::json all = nlohmann::json::array();
  for (const GatheredFile& file : files) all.push_back({file.name, file.bytes});
  return all.dump();
}

/// A name that would leave the run's folder is refused.
std::vector<GatheredFile> files_from(const std::string& text) {
  std::vector<GatheredFile> files;
  for (const nlohmann::json& one : nlohmann::json::parse(text)) {
    const GatheredFile file{one.at(0), one.at(1)};
    require(fs::path(file.name).filename() == file.name, "a run has a file ", file.name);
    files.push_back(file);
  }
  return files;
}

/// Which this rank has written; the settings are rank 0's.
std::vector<GatheredFile> files_in(const RunFolder& run) {
  std::vector<GatheredFile> files;
  for (const auto& entry : fs::directory_iterator(run.path())) {
    const bool is_shared = entry.path() == run.config() || !entry.is_regular_file();
    if (!is_shared) files.push_back({entry.path().filename().string(), entry.file_size()});
  }
  std::sort(files.begin(), files.end(), [](const GatheredFile& a, const GatheredFile& b) { return a.name < b.name; });
  return files;
}

transport::Message piece(transport::Channel channel, std::size_t bytes) {
  return {channel, "a run's file", DType::uint8, bytes};
}

RunFolder make_own(const std::string& config, int rank) {
  std::string name = (fs::temp_directory_path() / text("ripieno-run-rank-", rank, "-XXXXXX")).string();
  if (!::mkdtemp(name.data()))
    fail(ErrorKind::io, name, ": cannot make the folder, on ", asio::ip::host_name(),
         ", which does not share run.folder");
  write_file(fs::path(name) / "config.toml", config);
  return open_run(name);
}

Task<> take_file(collective::Communicator comm, int from, transport::Channel channel, fs::path path,
                 std::uint64_t bytes) {
  const Descriptor out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!out.is_open()) fail(ErrorKind::io, path.string(), ": cannot open: ", std::generic_category().message(errno));
  std::vector<std::uint8_t> numbers(std::min<std::uint64_t>(bytes, piece_bytes));
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t count = std::min<std::uint64_t>(bytes - done, piece_bytes);
    const NumberSpan into(numbers.data(), count, DType::uint8);
    co_await comm.endpoint().receive(comm.member(from), piece(channel, count), into, numeric::Reduce::replace);
    write_all(out.get(), {reinterpret_cast<const char*>(numbers.data()), count}, path);
    done += count;
  }
}

Task<> give_file(collective::Communicator comm, transport::Channel channel, fs::path path, std::uint64_t bytes) {
  RandomAccessFile in(path);
  std::vector<std::uint8_t> numbers(std::min<std::uint64_t>(bytes, piece_bytes));
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t count = std::min<std::uint64_t>(bytes - done, piece_bytes);
    const std::span<std::uint8_t> some(numbers.data(), count);
    in.read(done, std::as_writable_bytes(some));
    const ConstBytes out = std::as_bytes(some);
    co_await comm.endpoint().send(comm.member(0), piece(channel, count), out);
    done += count;
  }
}

}  // namespace

Task<> RankFolder::agree(collective::Communicator comm, std::optional<RunFolder> made, RankFolder* mine) {
  mine->rank_ = comm.rank();
  std::string path, config, mark;  // a file that only a host which shares the folder can see
  if (made) {
    path = fs::absolute(made->path()).string();
    config = read_file(made->config());
    mark = "shared-" + rendezvous::random_token().substr(0, 16);
    write_file(made->path() / mark, "");
  }
  path = co_await comm.broadcast(path);
  config = co_await comm.broadcast(config);
  mark = co_await comm.broadcast(mark);
  mine->is_own_ = !fs::exists(fs::path(path) / mark);
  co_await comm.barrier();
  if (made) fs::remove(made->path() / mark);
  mine->run_.emplace(made ? *made : mine->is_own_ ? make_own(config, mine->rank_) : open_run(path));
}

RankFolder::~RankFolder() {
  if (!is_own_ || !run_) return;
  RunFolder::remove_if_nothing_came(run_->path());
  if (!fs::exists(run_->path())) return;
  std::cerr << text("rank ", rank_, ": ", asio::ip::host_name(),
                    " does not share the run's folder; what this rank has "
                    "written is in ",
                    run_->path().string(), "\n");
}

Task<> RankFolder::gather(collective::Communicator comm) {
  const std::vector<GatheredFile> own = is_own_ ? files_in(*run_) : std::vector<GatheredFile>();
  const std::vector<std::string> all = co_await comm.all_gather(to_text(own));
  const transport::Channel channel = comm.channel(comm.take_channels(), observe::Purpose::control);
  for (int rank = 1; rank < comm.size(); ++rank) {
    for (const GatheredFile& file : files_from(all[static_cast<std::size_t>(rank)])) {
      const fs::path path = run_->path() / file.name;
      if (comm.rank() == 0) co_await take_file(comm, rank, channel, path, file.bytes);
      if (comm.rank() == rank) co_await give_file(comm, channel, path, file.bytes);
    }
  }
  co_await comm.barrier();
  if (is_own_) fs::remove_all(run_->path());
  is_own_ = false;
}

}  // namespace ripieno::program
