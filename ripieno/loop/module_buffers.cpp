#include "ripieno/loop/module_buffers.h"

#include <unordered_set>

#include "ripieno/collective/execute.h"

namespace ripieno::loop {
namespace {

constexpr std::size_t alignment = 16;  // of a buffer in the packed memory, in bytes
const collective::ExecuteOptions as_bytes{DType::uint8, observe::Purpose::control};

/// Of batch norm.
bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") || name.ends_with("num_batches_tracked");
}

}  // namespace

ModuleBuffers::ModuleBuffers(torch::nn::Module& module, const Memory& memory) {
  std::unordered_set<const void*> known;
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!buffer.defined() || !known.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (buffer.layout() != torch::kStrided) {
      fail(ErrorKind::usage, "buffer ", item.key(), " is ", buffer.layout(), "; dense ones can be given to all ranks");
    }
    names_.push_back(item.key());
    buffers_.push_back(buffer);
    offsets.push_back(bytes);
    bytes += (buffer.nbytes() + alignment - 1) / alignment * alignment;
  }
  auto owned = memory(bytes);
  std::byte* const data = owned.get();
  const auto words = static_cast<std::int64_t>(bytes / 4);
  memory_ = torch::from_blob(
      data, {words}, [owned = std::move(owned)](void*) mutable { owned.reset(); }, torch::kFloat32);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    packed_.push_back(torch::from_blob(data + offsets[i], buffers_[i].sizes(), buffers_[i].scalar_type()));
  }
}

std::vector<std::string> ModuleBuffers::lines() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    all.push_back(text("buffer ", names_[i], " of shape ", packed_[i].sizes(), " and type ", packed_[i].scalar_type()));
  }
  return all;
}

void ModuleBuffers::check() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& now = buffers_[i];
    if (now.sizes() == packed_[i].sizes() && now.scalar_type() == packed_[i].scalar_type()) continue;
    fail(ErrorKind::usage, "buffer ", names_[i], " is of shape ", now.sizes(), " and type ", now.scalar_type(),
         ", and was of ", packed_[i].sizes(), " and ", packed_[i].scalar_type(), " at first: change it before");
  }
}

Task<> ModuleBuffers::give_first(collective::Communicator comm) {
  if (empty() || comm.size() == 1) co_return;
  if (comm.rank() == 0) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) packed_[i].copy_(buffers_[i]);
  }
  co_await collective::broadcast(comm, NumberSpan(memory_.data_ptr(), memory_.nbytes(), DType::uint8), as_bytes);
  if (comm.rank() != 0) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      // Of batch norm not as a change in place: a forward pass keeps its statistics, and its backward pass does not
      // read them.
      (is_statistic(names_[i]) ? buffers_[i].variable_data() : buffers_[i]).copy_(packed_[i]);
    }
  }
}

}  // namespace ripieno::loop
