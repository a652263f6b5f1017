#include "ripieno/train/checkpoint.h"

#include <ATen/EmptyTensor.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "ripieno/core/file.h"
#include "ripieno/core/hash.h"

namespace ripieno::train {
namespace {

torch::ScalarType scalar_type(DType type) {
  require(type == DType::fp32 || type == DType::fp64, "state of type ", name(type), " in a checkpoint");
  return type == DType::fp64 ? torch::kFloat64 : torch::kFloat32;
}

[[noreturn]] void fail_damaged(const std::filesystem::path& path, const std::exception& error) {
  const std::string what = error.what();
  fail(ErrorKind::data, path.string(), ": is no checkpoint, or a damaged one (",
       what.substr(0, what.find_first_of("\n.:(")), ")");
}

bool is_plain(torch::ScalarType type) {
  return type == torch::kHalf || type == torch::kBFloat16 || type == torch::kFloat32 || type == torch::kFloat64 ||
         c10::isIntegralType(type, /*includeBool=*/true);
}

/// The bytes of the archive's records, by where they were read to. What a storage says of its size is the pickle's
/// word.
using Records = std::map<const void*, std::size_t>;

/// As it is. Throws std::runtime_error where it reaches beyond its record, or is none of numbers in memory.
torch::Tensor whole(torch::Tensor tensor, const Records& records) {
  const auto is_whole = [&] {
    if (!tensor.defined() || tensor.layout() != torch::kStrided || !tensor.device().is_cpu()) return false;
    if (!is_plain(tensor.scalar_type())) return false;
    const std::size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(),
                                                               static_cast<std::size_t>(tensor.storage_offset()));
    const auto record = records.find(tensor.storage().data());
    return bytes == 0 || (record != records.end() && bytes <= record->second);
  };
  if (!is_whole()) throw std::runtime_error("a tensor that is not whole");
  return tensor;
}

/// What the pickle describes, of the archive's records.
c10::IValue unpickled(std::string_view pickle, caffe2::serialize::PyTorchStreamReader* archive, Records* records) {
  const auto read = [&pickle](char* into, std::size_t most) {
    const std::size_t bytes = pickle.copy(into, most);
    pickle.remove_prefix(bytes);
    return bytes;
  };
  const auto read_record = [&](const std::string& name) {
    auto [data, bytes] = archive->getRecord("data/" + name);
    (*records)[data.get()] = bytes;
    return std::move(data);
  };
  return torch::jit::Unpickler(read, {}, {}, read_record, {}).parse_ivalue();
}

/// Of a pickle's instructions that LibTorch reads: those of a fixed size, and those whose first bytes are a length.
struct PickleCodes {
  std::string_view codes;
  std::size_t size;
  std::size_t length = 0;  ///< bytes of the length
};
constexpr PickleCodes instructions[]{{"().]}NQRabdelstu\x81\x85\x86\x87\x88\x89", 1},
                                     {"Khq\x80", 2},
                                     {"M", 3},
                                     {"Jjr", 5},
                                     {"G", 9},
                                     {"U\x8a", 2, 1},
                                     {"TX", 5, 4},
                                     {"\x8d", 9, 8}};

/// The bytes of the instruction that `rest` begins with; 0: not known here.
std::size_t size_of_instruction(std::string_view rest) {
  if (rest[0] == 'c') {  // two lines
    const std::size_t first = rest.find('\n');
    const std::size_t second = first == rest.npos ? first : rest.find('\n', first + 1);
    return second == rest.npos ? 0 : second + 1;
  }
  for (const PickleCodes& row : instructions) {
    if (row.codes.find(rest[0]) == row.codes.npos) continue;
    std::uint64_t length = 0;
    if (rest.size() > row.length) std::memcpy(&length, rest.data() + 1, row.length);
    return row.size + std::min<std::uint64_t>(length, rest.size());
  }
  return 0;
}

/// Throws std::runtime_error if the pickle numbers its objects higher than it has bytes: LibTorch would make room for
/// as many as the highest number says.
void check_numbers(std::string_view pickle) {
  for (std::string_view rest = pickle; !rest.empty();) {
    const std::size_t size = size_of_instruction(rest);
    if (size == 0) return;  // LibTorch does not know it either, and reads no further
    if (size > rest.size()) throw std::runtime_error("a text ends after the file");
    std::uint32_t number = 0;
    if (rest[0] == 'r') std::memcpy(&number, rest.data() + 1, sizeof number);
    if (number > pickle.size()) throw std::runtime_error("an object's number is too high");
    rest.remove_prefix(size);
  }
}

constexpr const char* checksum_name = "checksum";

/// Of names and bytes.
std::int64_t checksum_of(const NamedTensors& tensors) {
  std::string hashes;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor plain = tensor.contiguous();
    hashes += text(name, ' ', hash({static_cast<const char*>(plain.data_ptr()), plain.nbytes()}), '\n');
  }
  return static_cast<std::int64_t>(hash(hashes));
}

}  // namespace

void save_tensors(const std::filesystem::path& path, const NamedTensors& tensors) {
  c10::Dict<std::string, torch::Tensor> dictionary;
  // A view would save the whole flat memory with it, so each tensor gets its own storage.
  for (const auto& [name, tensor] : tensors)
    dictionary.insert(name, tensor.detach().cpu().clone(torch::MemoryFormat::Contiguous));

  std::string pickled;
  const auto collect = [&pickled](const char* data, std::size_t size) { pickled.append(data, size); };
  // Without type tags: they are TorchScript's, and torch.load refuses them.
  torch::jit::Pickler pickler(collect, nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dictionary);
  pickler.stop();

  std::string archive;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&archive](const void* data, std::size_t size) {
      archive.append(static_cast<const char*>(data), size);
      return size;
    });
    std::size_t index = 0;
    for (const torch::Tensor& tensor : pickler.tensorData()) {
      writer.writeRecord("data/" + std::to_string(index++), tensor.data_ptr(), tensor.nbytes());
    }
    writer.writeRecord("data.pkl", pickled.data(), pickled.size());
    writer.writeEndOfFile();
  }
  write_file(path, archive);
}

NamedTensors load_tensors(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) fail(ErrorKind::data, path.string(), ": there is no such checkpoint");
  NamedTensors tensors;
  try {
    // Not torch::jit::pickle_load(), which reads beyond the end of what is damaged, nor readArchiveAndTensors(), which
    // does not say how large a record is.
    caffe2::serialize::PyTorchStreamReader reader(path.string());
    const auto [pickle, bytes] = reader.getRecord("data.pkl");
    const std::string_view text(static_cast<const char*>(pickle.get()), bytes);
    check_numbers(text);
    Records records;
    const c10::IValue value = unpickled(text, &reader, &records);
    for (const auto& item : value.toGenericDict())
      tensors.emplace_back(item.key().toStringRef(), whole(item.value().toTensor(), records));
  } catch (const std::exception& error) {
    fail_damaged(path, error);
  }
  return tensors;
}

std::vector<std::int64_t> load_first_numbers(const std::filesystem::path& path, std::size_t count) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(path.string());
    std::vector<std::int64_t> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto [data, bytes] = reader.getRecord(text("data/", i));
      if (bytes != sizeof numbers[i]) fail(ErrorKind::data, "its tensor ", i, " has ", bytes, " bytes");
      std::memcpy(&numbers[i], data.get(), bytes);
    }
    return numbers;
  } catch (const std::exception& error) {
    fail_damaged(path, error);
  }
}

NamedTensors state_dict(const torch::nn::Module& module) {
  NamedTensors tensors;
  // Module by module, parameters before buffers: the order of Python's state_dict().
  const auto visit = [&tensors](const std::string& prefix, const torch::nn::Module& one) {
    const std::string dot = prefix.empty() ? "" : prefix + ".";
    for (const auto& item : one.named_parameters(/*recurse=*/false))
      tensors.emplace_back(dot + item.key(), item.value());
    for (const auto& item : one.named_buffers(/*recurse=*/false)) tensors.emplace_back(dot + item.key(), item.value());
  };
  visit("", module);
  for (const auto& item : module.named_modules("", /*include_self=*/false)) visit(item.key(), *item.value());
  return tensors;
}

void load_state_dict(torch::nn::Module& module, const NamedTensors& tensors, const std::filesystem::path& file) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, torch::Tensor> found(tensors.begin(), tensors.end());
  for (auto& [name, tensor] : state_dict(module)) {
    const auto it = found.find(name);
    if (it == found.end()) fail(ErrorKind::data, file.string(), ": has no tensor ", name, ", which the model has");
    if (it->second.sizes() != tensor.sizes()) {
      fail(ErrorKind::data, file.string(), ": tensor ", name, " is of shape ", it->second.sizes(), ", the model's of ",
           tensor.sizes());
    }
    tensor.copy_(it->second);
    found.erase(it);
  }
  if (!found.empty())
    fail(ErrorKind::data, file.string(), ": has a tensor ", found.begin()->first, ", which the model has not");
}

void StateWriter::span(std::string_view name, NumberSpan values) {
  torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(values.count)}, scalar_type(values.type));
  if (values.count > 0) std::memcpy(tensor.data_ptr(), values.data, values.size_bytes());
  if (!keeps_residuals_ && name.ends_with(".residual")) tensor.zero_();
  tensors_.emplace_back(name, tensor);
}

void StateWriter::number(std::string_view name, std::int64_t& value) {
  tensors_.emplace_back(name, torch::tensor({value}, torch::kInt64));
}

NamedTensors StateWriter::sealed() const {
  NamedTensors all = tensors_;
  all.emplace_back(checksum_name, torch::tensor({checksum_of(tensors_)}, torch::kInt64));
  return all;
}

StateReader::StateReader(NamedTensors tensors, std::filesystem::path file)
    : tensors_(std::move(tensors)), file_(std::move(file)) {
  std::int64_t said = 0;
  number(checksum_name, said);
  std::erase_if(tensors_, [](const auto& one) { return one.first == checksum_name; });
  if (const std::int64_t is = checksum_of(tensors_); is != said) {
    fail(ErrorKind::data, file_.string(), ": is damaged: its numbers have the checksum ", std::hex, is,
         ", and it says ", said);
  }
}

const torch::Tensor& StateReader::find(std::string_view name) const {
  for (const auto& [known, tensor] : tensors_) {
    if (known == name) return tensor;
  }
  fail(ErrorKind::data, file_.string(), ": has no ", name, "; it was written by a run with other settings");
}

void StateReader::span(std::string_view name, NumberSpan values) {
  const torch::Tensor tensor = find(name);
  if (static_cast<std::size_t>(tensor.numel()) != values.count || tensor.scalar_type() != scalar_type(values.type)) {
    fail(ErrorKind::data, file_.string(), ": ", name, " has ", tensor.numel(), " numbers of type ",
         tensor.scalar_type(), ", this run's has ", values.count, " of ", ripieno::name(values.type));
  }
  if (values.count > 0) std::memcpy(values.data, tensor.contiguous().data_ptr(), values.size_bytes());
}

void StateReader::number(std::string_view name, std::int64_t& value) {
  const torch::Tensor tensor = find(name);
  if (tensor.numel() != 1 || tensor.scalar_type() != torch::kInt64)
    fail(ErrorKind::data, file_.string(), ": ", name, " is not one whole number");
  value = tensor.item<std::int64_t>();
}

}  // namespace ripieno::train
