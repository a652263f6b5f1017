// A device that is not the CPU, where there is no GPU. To LibTorch it is an HPU, of which its builds have none: a
// backend of one's own (PrivateUse1) may not take the parameters of a module that was made elsewhere. Its memory holds
// every bit inverted, so that who reads or writes it by address, as only the CPU's may be, comes to nonsense. What it
// computes is computed on the CPU from copies. Include it once in an executable.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

namespace ripieno::testing::other {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;
constexpr auto kind = c10::DeviceType::HPU;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kind; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {kind, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(HPU, Guard);

struct Hooks final : at::HPUHooksInterface {
  explicit Hooks(at::HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(64));
    return {data, data, free, c10::Device(kind, 0)};
  }
  static void free(void* data) { ::operator delete(data, std::align_val_t(64)); }
  c10::DeleterFnPtr raw_deleter() const override { return free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

inline Allocator& allocator() {
  static Allocator one;
  return one;
}

inline void invert(void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(~static_cast<const std::uint8_t*>(from)[i]);
}

/// On the CPU: a tensor of the same form, in a copy of all the memory that this one is part of.
inline Tensor decoded(const Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const auto bytes = tensor.storage().nbytes();
  const Tensor memory = torch::empty({static_cast<std::int64_t>(bytes)}, torch::kUInt8);
  invert(memory.data_ptr(), tensor.storage().data(), bytes);
  return torch::empty({0}, tensor.options().device(torch::kCPU))
      .set_(memory.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

inline Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  const torch::NoGradGuard no_grad;
  Tensor target = decoded(to);
  target.copy_(decoded(from));
  if (!to.is_cpu()) invert(to.storage().mutable_data(), target.storage().data(), to.storage().nbytes());
  return to;
}

inline Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) at::native::resize_(to, from.sizes());
  return copy_from(from, to, false);
}

constexpr c10::DispatchKeySet keys(c10::DispatchKey::HPU);

inline torch::ScalarType type_of(std::optional<torch::ScalarType> type) {
  return type.value_or(c10::typeMetaToScalarType(torch::get_default_dtype()));
}

inline Tensor empty(c10::IntArrayRef size, std::optional<torch::ScalarType> type, std::optional<torch::Layout>,
                    std::optional<torch::Device>, std::optional<bool>, std::optional<torch::MemoryFormat> format) {
  return Tensor(at::detail::empty_generic(size, &allocator(), keys, type_of(type), format));
}

inline Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<torch::ScalarType> type,
                            std::optional<torch::Layout>, std::optional<torch::Device>, std::optional<bool>) {
  return Tensor(at::detail::empty_strided_generic(size, stride, &allocator(), keys, type_of(type)));
}

inline MaybeTensor decoded(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(decoded(*tensor)) : std::nullopt;
}

inline Tensor there(const Tensor& tensor) { return tensor.defined() ? tensor.to(c10::Device(kind, 0)) : tensor; }

inline Tensor convolution(const Tensor& x, const Tensor& weight, const MaybeTensor& bias, c10::IntArrayRef stride,
                          c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                          c10::IntArrayRef output_padding, std::int64_t groups) {
  return there(at::convolution(decoded(x), decoded(weight), decoded(bias), stride, padding, dilation, transposed,
                               output_padding, groups));
}

inline std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& x,
                                                               const Tensor& weight, c10::IntArrayRef stride,
                                                               c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                               bool transposed, c10::IntArrayRef output_padding,
                                                               std::int64_t groups, std::array<bool, 3> mask) {
  const std::vector<std::int64_t> bias_sizes{weight.size(0)};
  const auto [dx, dw, db] =
      at::convolution_backward(decoded(gradient), decoded(x), decoded(weight), at::OptionalIntArrayRef(bias_sizes),
                               stride, padding, dilation, transposed, output_padding, groups, mask);
  return {there(dx), there(dw), there(db)};
}

/// Its schema does not say that it changes the running mean and variance, so the fallback would not bring them back.
inline std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const MaybeTensor& weight,
                                                     const MaybeTensor& bias, const MaybeTensor& mean,
                                                     const MaybeTensor& variance, bool training, double momentum,
                                                     double epsilon) {
  const MaybeTensor m = decoded(mean), v = decoded(variance);
  const auto [y, saved_mean, saved_spread] =
      at::native_batch_norm(decoded(x), decoded(weight), decoded(bias), m, v, training, momentum, epsilon);
  if (m) copy_from(*m, *mean, false);
  if (v) copy_from(*v, *variance, false);
  return {there(y), there(saved_mean), there(saved_spread)};
}

inline void by_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("resize_", at::native::resize_);
  library.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  library.impl("native_batch_norm", batch_norm);
}
TORCH_LIBRARY_IMPL(_, HPU, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>()); }

}  // namespace ripieno::testing::other

namespace at {
using HPUHooks = ripieno::testing::other::Hooks;  // the name by which LibTorch looks for it
REGISTER_HPU_HOOKS(HPUHooks);
}  // namespace at

namespace ripieno::testing {

/// Of which there is one.
inline torch::Device other_device() {
  static const bool known = (c10::SetAllocator(other::kind, &other::allocator()), true);
  return {other::kind, static_cast<c10::DeviceIndex>(known ? 0 : -1)};
}

}  // namespace ripieno::testing
