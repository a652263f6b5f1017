#include "ripieno/fused/winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ripieno/fused/memory_format.h"
#include "ripieno/fused/threads.h"

namespace ripieno::fused {
namespace {

using torch::Tensor;

constexpr std::int64_t cache = 1'000'000 / sizeof(float);  // numbers that stay in the L2 cache

kernels::Images images_of(torch::IntArrayRef sizes, std::int64_t count) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes[i]); };
  return {static_cast<std::size_t>(count), size(2), size(3), size(1)};
}

/// Memory for numbers at the points of so many images; each part of a batch uses as much as it needs.
class Points {
 public:
  Points(kernels::WinogradTile m, const kernels::Tiling& largest)
      : count_(static_cast<std::int64_t>(kernels::points_of(m))),
        memory_(at::empty({count_ * elements(largest)}, torch::kFloat32)) {}
  /// points x tiles x channels
  Tensor of(const kernels::Tiling& tiling) const {
    const auto tiles = static_cast<std::int64_t>(tiling.tiles()),
               channels = static_cast<std::int64_t>(tiling.images.channels);
    return memory_.narrow(0, 0, count_ * elements(tiling)).view({count_, tiles, channels});
  }

 private:
  static std::int64_t elements(const kernels::Tiling& tiling) {
    return static_cast<std::int64_t>(tiling.tiles() * tiling.images.channels);
  }
  std::int64_t count_;
  Tensor memory_;
};

kernels::WinogradPoints planes_of(const Tensor& points) {
  return {points.data_ptr<float>(), static_cast<std::size_t>(points.stride(0))};
}

/// body(the first number of these images), as the kernels take them.
template <class Body>
void with_numbers(const Tensor& images, Body body) {
  if (images.scalar_type() == torch::kBFloat16)
    return body(reinterpret_cast<std::uint16_t*>(images.data_ptr<at::BFloat16>()));
  body(images.data_ptr<float>());
}

template <class Body>
void over_images(const kernels::Tiling& tiling, Body body) {
  over_threads(static_cast<std::int64_t>(tiling.images.count), 1, [&](std::int64_t begin, std::int64_t end) {
    body(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}

void transform(const Tensor& points, const Tensor& images, const kernels::Tiling& tiling, kernels::WinogradTile m,
               kernels::WinogradMap map) {
  with_numbers(images, [&](const auto* numbers) {
    over_images(tiling, [&](std::size_t begin, std::size_t end) {
      kernels::to_points(planes_of(points), numbers, tiling, m, map, begin, end);
    });
  });
}

void transform_back(const Tensor& images, const Tensor& points, const kernels::Tiling& tiling, kernels::WinogradTile m,
                    kernels::WinogradMap map, const float* bias = nullptr) {
  with_numbers(images, [&](auto* numbers) {
    over_images(tiling, [&](std::size_t begin, std::size_t end) {
      kernels::from_points(numbers, planes_of(points), tiling, m, map, bias, begin, end);
    });
  });
}

/// Calls body(first, count) with parts of so many channels.
template <class Body>
void over_channels(std::int64_t channels, std::int64_t part, Body body) {
  over_threads((channels + part - 1) / part, 1, [&](std::int64_t begin, std::int64_t end) {
    const torch::NoGradGuard no_grad;
    for (std::int64_t first = begin * part; first < std::min(channels, end * part); first += part) {
      body(first, std::min(part, channels - first));
    }
  });
}

/// Calls body(first, end), part by part, with ranges of images: in one range, or, if there are enough parts, in one per
/// thread, so that threads need not wait for each other.
template <class Body>
void over_ranges(std::int64_t images, std::int64_t part, Body body) {
  const std::int64_t parts = (images + part - 1) / part;
  if (parts < at::get_num_threads()) return body(0, images);
  over_threads(parts, 1,
               [&](std::int64_t begin, std::int64_t end) { body(begin * part, std::min(images, end * part)); });
}

}  // namespace

std::optional<Winograd> Winograd::of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride,
                                     std::int64_t padding, double direct) {
  if (stride != 1 || weight[2] != 3 || weight[3] != 3 || padding > 2 || weight[0] % 8 != 0 || weight[1] % 8 != 0)
    return std::nullopt;
  Winograd made;
  made.padding_ = padding;
  made.input_ = input.vec();
  made.weight_ = weight.vec();
  made.result_ = {input[0], weight[0], input[2] + 2 * padding - 2, input[3] + 2 * padding - 2};
  if (made.result_[2] < 1 || made.result_[3] < 1) return std::nullopt;
  // Operations, in products of numbers: at each point a matrix product and the transforms, which cost `transform`
  // products per channel of a tile, and `weight_transform` per weight (measured on processors with 512-bit vectors).
  constexpr double transform = 25, weight_transform = 16;
  const auto inputs = static_cast<double>(weight[1]), outputs = static_cast<double>(weight[0]);
  made.operations_ = direct * 9 * static_cast<double>(input[0] * made.result_[2] * made.result_[3]) * inputs * outputs;
  bool wins = false;
  for (const kernels::WinogradTile m : {kernels::WinogradTile::two, kernels::WinogradTile::four}) {
    const auto side = static_cast<std::int64_t>(m);
    const std::int64_t rows = (made.result_[2] + side - 1) / side, columns = (made.result_[3] + side - 1) / side;
    const double tiles = static_cast<double>(input[0] * rows * columns), weights = inputs * outputs;
    const double cost = static_cast<double>(kernels::points_of(m)) *
                        (tiles * (weights + transform * (inputs + outputs)) + weight_transform * weights);
    if (cost >= made.operations_) continue;
    made.operations_ = cost;
    wins = true;
    made.tile_ = m;
    made.rows_ = rows;
    made.columns_ = columns;
  }
  return wins ? std::optional(made) : std::nullopt;
}

kernels::Tiling Winograd::input_tiles(std::int64_t images) const {
  return {images_of(input_, images), static_cast<std::size_t>(rows_), static_cast<std::size_t>(columns_),
          static_cast<std::size_t>(tile_), -padding_};
}
kernels::Tiling Winograd::result_tiles(std::int64_t images) const {
  return {images_of(result_, images), static_cast<std::size_t>(rows_), static_cast<std::size_t>(columns_),
          static_cast<std::size_t>(tile_), 0};
}
kernels::Tiling Winograd::weight_tiles(std::int64_t outputs) const { return {.images = images_of(weight_, outputs)}; }

std::int64_t Winograd::numbers_an_image() const {
  return static_cast<std::int64_t>(kernels::points_of(tile_)) * rows_ * columns_ * (weight_[0] + weight_[1]);
}
std::int64_t Winograd::numbers_of_weights() const {
  return static_cast<std::int64_t>(kernels::points_of(tile_)) * weight_[0] * weight_[1];
}

bool Winograd::by_channels() const { return numbers_of_weights() > std::max(cache, input_[0] * numbers_an_image()); }

/// As many images as fit the L2 cache with their numbers at the points, or have as many as the weights there, which
/// every part reads.
std::int64_t Winograd::images_a_part() const {
  return std::clamp<std::int64_t>(std::max(cache, numbers_of_weights()) / numbers_an_image(), 1, input_[0]);
}

/// As many channels as make a part of the weights at the points, with all `others`, 5 MB: smaller matrix products lose
/// more time than the cache saves; larger parts leave the cache (measured with 512 KB of L2 and 32 MB of L3 cache).
std::int64_t Winograd::channels_a_part(std::int64_t others) const {
  constexpr std::int64_t fast = 32, part = 5 * cache;
  return std::max<std::int64_t>(part / (static_cast<std::int64_t>(kernels::points_of(tile_)) * others) / fast, 1) *
         fast;
}

Tensor Winograd::prepared(const Tensor& weight) const {
  Tensor in = weight.contiguous(channels_last);
  if (by_channels()) return in;
  Tensor made = Points(tile_, weight_tiles(weight_[0])).of(weight_tiles(weight_[0]));
  transform(made, in, weight_tiles(weight_[0]), tile_, kernels::WinogradMap::weight);
  return made;
}

Tensor Winograd::forward(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  return by_channels() ? forward_by_channels(input, weight, bias) : forward_by_images(input, weight, bias);
}

Tensor Winograd::backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, Tensor weight_gradient,
                          const std::function<void()>& written, bool needs_input) const {
  return by_channels() ? backward_by_channels(gradient, input, weight, weight_gradient, written, needs_input)
                       : backward_by_images(gradient, input, weight, weight_gradient, written, needs_input);
}

Tensor Winograd::forward_by_images(const Tensor& input, const Tensor& weight_points, const Tensor& bias) const {
  const Tensor in = input.contiguous(channels_last);
  Tensor result = at::empty(result_, in.options().memory_format(channels_last));
  const std::int64_t part = images_a_part();
  const float* added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  over_ranges(input_[0], part, [&](std::int64_t first, std::int64_t end) {
    const torch::NoGradGuard no_grad;
    const Points inputs(tile_, input_tiles(part)), results(tile_, result_tiles(part));
    for (std::int64_t n = first; n < end; n += part) {
      const std::int64_t count = std::min(part, end - n);
      const Tensor x = inputs.of(input_tiles(count));
      Tensor y = results.of(result_tiles(count));
      transform(x, in.narrow(0, n, count), input_tiles(count), tile_, kernels::WinogradMap::input);
      at::bmm_out(y, x, weight_points.transpose(1, 2));
      transform_back(result.narrow(0, n, count), y, result_tiles(count), tile_, kernels::WinogradMap::result, added);
    }
  });
  return result;
}

Tensor Winograd::forward_by_channels(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  const Tensor in = input.contiguous(channels_last);
  Tensor result = at::empty(result_, in.options().memory_format(channels_last));
  const kernels::Tiling in_tiles = input_tiles(input_[0]), out_tiles = result_tiles(input_[0]);
  const Tensor x = Points(tile_, in_tiles).of(in_tiles);
  transform(x, in, in_tiles, tile_, kernels::WinogradMap::input);
  over_channels(weight_[0], channels_a_part(weight_[1]), [&](std::int64_t first, std::int64_t count) {
    const kernels::Tiling some_weights = weight_tiles(count),
                          some_results = out_tiles.some(static_cast<std::size_t>(count));
    const Tensor w = Points(tile_, some_weights).of(some_weights);
    Tensor y = Points(tile_, some_results).of(some_results);
    transform(w, weight.narrow(0, first, count), some_weights, tile_, kernels::WinogradMap::weight);
    at::bmm_out(y, x, w.transpose(1, 2));
    transform_back(result.narrow(1, first, count), y, some_results, tile_, kernels::WinogradMap::result,
                   bias.defined() ? bias.const_data_ptr<float>() + first : nullptr);
  });
  return result;
}

Tensor Winograd::backward_by_channels(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                      Tensor weight_gradient, const std::function<void()>& written,
                                      bool needs_input) const {
  const Tensor by_result = gradient.contiguous(channels_last), in = input.contiguous(channels_last);
  const kernels::Tiling in_tiles = input_tiles(input_[0]), out_tiles = result_tiles(input_[0]),
                        all_weights = weight_tiles(weight_[0]);
  const Tensor x = Points(tile_, in_tiles).of(in_tiles), g = Points(tile_, out_tiles).of(out_tiles);
  transform(x, in, in_tiles, tile_, kernels::WinogradMap::input);
  transform(g, by_result, out_tiles, tile_, kernels::WinogradMap::result);
  over_channels(weight_[0], channels_a_part(weight_[1]), [&](std::int64_t first, std::int64_t count) {
    const kernels::Tiling some_weights = weight_tiles(count);
    Tensor w = Points(tile_, some_weights).of(some_weights);
    at::bmm_out(w, g.narrow(2, first, count).transpose(1, 2), x);
    transform_back(weight_gradient.narrow(0, first, count), w, some_weights, tile_, kernels::WinogradMap::weight);
  });
  written();
  if (!needs_input) return Tensor();
  Tensor by_input = at::empty(input_, in.options().memory_format(channels_last));
  over_channels(weight_[1], channels_a_part(weight_[0]), [&](std::int64_t first, std::int64_t count) {
    const kernels::Tiling some_weights = all_weights.some(static_cast<std::size_t>(count)),
                          some_inputs = in_tiles.some(static_cast<std::size_t>(count));
    const Tensor w = Points(tile_, some_weights).of(some_weights);
    Tensor y = Points(tile_, some_inputs).of(some_inputs);
    transform(w, weight.narrow(1, first, count), some_weights, tile_, kernels::WinogradMap::weight);
    at::bmm_out(y, g, w);
    transform_back(by_input.narrow(1, first, count), y, some_inputs, tile_, kernels::WinogradMap::input);
  });
  return by_input;
}

Tensor Winograd::backward_by_images(const Tensor& gradient, const Tensor& input, const Tensor& weight_points,
                                    Tensor weight_gradient, const std::function<void()>& written,
                                    bool needs_input) const {
  const Tensor by_result = gradient.contiguous(channels_last), in = input.contiguous(channels_last);
  Tensor by_input = needs_input ? at::empty(input_, in.options().memory_format(channels_last)) : Tensor();
  const std::int64_t part = images_a_part();
  std::vector<Tensor> by_weight(static_cast<std::size_t>(at::get_num_threads()));  // each thread's sums
  const auto finish = [&] {
    for (std::size_t i = 1; i < by_weight.size(); ++i) {
      if (by_weight[i].defined()) by_weight[0].add_(by_weight[i]);
    }
    transform_back(weight_gradient, by_weight[0], weight_tiles(weight_[0]), tile_, kernels::WinogradMap::weight);
    written();
  };
  const bool alone = part >= input_[0];
  over_ranges(input_[0], part, [&](std::int64_t first, std::int64_t end) {
    const torch::NoGradGuard no_grad;
    const Points inputs(tile_, input_tiles(part)), results(tile_, result_tiles(part));
    Tensor& sum = by_weight[static_cast<std::size_t>(at::get_thread_num())];
    sum = at::empty_like(weight_points);
    for (std::int64_t n = first; n < end; n += part) {
      const std::int64_t count = std::min(part, end - n);
      Tensor x = inputs.of(input_tiles(count));
      const Tensor g = results.of(result_tiles(count));
      transform(x, in.narrow(0, n, count), input_tiles(count), tile_, kernels::WinogradMap::input);
      transform(g, by_result.narrow(0, n, count), result_tiles(count), tile_, kernels::WinogradMap::result);
      n == first ? at::bmm_out(sum, g.transpose(1, 2), x) : sum.baddbmm_(g.transpose(1, 2), x);
      if (alone) finish();
      if (!needs_input) continue;
      at::bmm_out(x, g, weight_points);
      transform_back(by_input.narrow(0, n, count), x, input_tiles(count), tile_, kernels::WinogradMap::input);
    }
  });
  if (!alone) finish();
  return by_input;
}

}  // namespace ripieno::fused
