// Tensors as the library's spans: numbers or bytes in host memory, one after the other.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "ripieno/core/span.h"

namespace ripieno::c10d {

/// The type of such a tensor's elements; nullopt if Ripieno has none for it (bool, int8, int16, complex, float8), so
/// that it moves them as bytes.
std::optional<DType> number_type(at::ScalarType type);

/// Copies elements, also where autograd or inference mode would not have it, on whatever thread. `into` does not change
/// in size, unless it is sparse.
void assign(const at::Tensor& into, const at::Tensor& from);

/// A tensor's elements in host memory, in the order of its indices: the tensor's own memory where it is so laid out,
/// else a copy.
class HostTensor {
 public:
  /// Made by the thread whose stream has computed the tensor. Error(usage): it is sparse.
  explicit HostTensor(at::Tensor tensor);

  const at::Tensor& host() const { return host_; }
  Bytes bytes() const { return {static_cast<std::byte*>(host_.data_ptr()), host_.nbytes()}; }
  /// As numbers of its own type, or else as bytes (uint8).
  NumberSpan numbers() const;
  /// After a change: copies the elements back, if they are a copy.
  void give_back() const;

 private:
  at::Tensor tensor_, host_;
};

/// Parts of memory, one for each rank of a group: each a tensor, or a piece of one.
class Parts {
 public:
  Parts() = default;
  /// A tensor for each rank.
  explicit Parts(const std::vector<at::Tensor>& tensors);
  /// The same tensor for each of `count` ranks.
  Parts(const HostTensor& tensor, int count)
      : bytes_(static_cast<std::size_t>(count), tensor.bytes()), of_(tensor.host().scalar_type()) {}
  /// One tensor, in `count` equal pieces. Error(usage): they would not be equal.
  static Parts equal(const at::Tensor& tensor, int count);
  /// One tensor, cut along its first dimension; no sizes: in `count` equal pieces. Error(usage): the sizes are not
  /// those of the tensor.
  static Parts along_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int count);

  int count() const { return static_cast<int>(bytes_.size()); }
  Bytes operator[](int i) const { return bytes_[static_cast<std::size_t>(i)]; }
  at::ScalarType scalar_type() const { return of_; }
  /// On the wire.
  DType type() const { return number_type(of_).value_or(DType::uint8); }
  void give_back() const;

 private:
  std::vector<HostTensor> tensors_;
  std::vector<Bytes> bytes_;
  at::ScalarType of_ = at::kByte;
};

}  // namespace ripieno::c10d
