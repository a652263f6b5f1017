#include "ripieno/model/winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ripieno/model/threads.h"

namespace ripieno {
namespace {

using torch::Tensor;

constexpr auto channels_last = torch::MemoryFormat::ChannelsLast;

Images images_of(torch::IntArrayRef sizes, std::int64_t count) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes[i]); };
  return {static_cast<std::size_t>(count), size(2), size(3), size(1)};
}

/// Memory for numbers at the points of so many images, of which each part of a batch uses what it needs.
class Points {
 public:
  Points(WinogradTile m, const Tiling& largest)
      : count_(static_cast<std::int64_t>(points_of(m))), memory_(at::empty({count_ * elements(largest)}, torch::kFloat32)) {}
  /// points x tiles x channels
  Tensor of(const Tiling& tiling) const {
    const auto tiles = static_cast<std::int64_t>(tiling.tiles()), channels = static_cast<std::int64_t>(tiling.images.channels);
    return memory_.narrow(0, 0, count_ * elements(tiling)).view({count_, tiles, channels});
  }

 private:
  static std::int64_t elements(const Tiling& tiling) { return static_cast<std::int64_t>(tiling.tiles() * tiling.images.channels); }
  std::int64_t count_;
  Tensor memory_;
};

WinogradPoints span_of(const Tensor& points) { return {points.data_ptr<float>(), static_cast<std::size_t>(points.stride(0))}; }

/// The first number of image n.
const float* image(const Tensor& images, std::int64_t n) { return images.const_data_ptr<float>() + n * images.stride(0); }
float* image(Tensor& images, std::int64_t n) { return images.data_ptr<float>() + n * images.stride(0); }

template <class Body>
void over_images(const Tiling& tiling, Body body) {
  over_threads(static_cast<std::int64_t>(tiling.images.count), 1,
               [&](std::int64_t begin, std::int64_t end) { body(static_cast<std::size_t>(begin), static_cast<std::size_t>(end)); });
}

void transform(const Tensor& points, const float* images, const Tiling& tiling, WinogradTile m, WinogradMap map) {
  over_images(tiling, [&](std::size_t begin, std::size_t end) { to_points(span_of(points), images, tiling, m, map, begin, end); });
}

void transform_back(float* images, const Tensor& points, const Tiling& tiling, WinogradTile m, WinogradMap map, const float* bias = nullptr) {
  over_images(tiling, [&](std::size_t begin, std::size_t end) { from_points(images, span_of(points), tiling, m, map, bias, begin, end); });
}

/// Calls body(first, end), part by part, with the images of ranges of parts: one range, or one for each thread where there are
/// as many parts, so that they need not wait for each other within them.
template <class Body>
void over_ranges(std::int64_t images, std::int64_t part, Body body) {
  const std::int64_t parts = (images + part - 1) / part;
  if (parts < at::get_num_threads()) return body(0, images);
  over_threads(parts, 1, [&](std::int64_t begin, std::int64_t end) { body(begin * part, std::min(images, end * part)); });
}

}  // namespace

std::optional<Winograd> Winograd::of(torch::IntArrayRef input, torch::IntArrayRef weight, std::int64_t stride, std::int64_t padding) {
  if (stride != 1 || weight[2] != 3 || weight[3] != 3 || padding > 2 || weight[0] % 8 != 0 || weight[1] % 8 != 0) return std::nullopt;
  Winograd made;
  made.padding_ = padding;
  made.input_ = input.vec();
  made.weight_ = weight.vec();
  made.result_ = {input[0], weight[0], input[2] + 2 * padding - 2, input[3] + 2 * padding - 2};
  if (made.result_[2] < 1 || made.result_[3] < 1) return std::nullopt;
  // Operations, in products of numbers: at each point a matrix product and the transforms, of which a channel of a tile costs as
  // much as `transform` products, and a weight as much as `weight_transform` (measured, on processors with 512 bits a vector).
  constexpr double transform = 25, weight_transform = 16;
  const auto inputs = static_cast<double>(weight[1]), outputs = static_cast<double>(weight[0]);
  made.operations_ = 9 * static_cast<double>(input[0] * made.result_[2] * made.result_[3]) * inputs * outputs;
  bool wins = false;
  for (const WinogradTile m : {WinogradTile::two, WinogradTile::four}) {
    const auto side = static_cast<std::int64_t>(m);
    const std::int64_t rows = (made.result_[2] + side - 1) / side, columns = (made.result_[3] + side - 1) / side;
    const double tiles = static_cast<double>(input[0] * rows * columns), weights = inputs * outputs;
    const double cost = static_cast<double>(points_of(m)) * (tiles * (weights + transform * (inputs + outputs)) + weight_transform * weights);
    if (cost >= made.operations_) continue;
    made.operations_ = cost;
    wins = true;
    made.tile_ = m;
    made.rows_ = rows;
    made.columns_ = columns;
  }
  return wins ? std::optional(made) : std::nullopt;
}

Tiling Winograd::input_tiles(std::int64_t images) const {
  return {images_of(input_, images), static_cast<std::size_t>(rows_), static_cast<std::size_t>(columns_), static_cast<std::size_t>(tile_), -padding_};
}
Tiling Winograd::result_tiles(std::int64_t images) const {
  return {images_of(result_, images), static_cast<std::size_t>(rows_), static_cast<std::size_t>(columns_), static_cast<std::size_t>(tile_), 0};
}
Tiling Winograd::weight_tiles() const { return {.images = images_of(weight_, weight_[0])}; }

/// As many as make the numbers at the points fit the second cache, or be as many as the weights there, which every part reads.
std::int64_t Winograd::images_a_part() const {
  constexpr std::int64_t cache = 1'000'000 / sizeof(float);
  const std::int64_t points = static_cast<std::int64_t>(points_of(tile_)), an_image = points * rows_ * columns_ * (weight_[0] + weight_[1]);
  return std::clamp<std::int64_t>(std::max(cache, points * weight_[0] * weight_[1]) / an_image, 1, input_[0]);
}

Tensor Winograd::at_points(const Tensor& weight) const {
  const Tensor in = weight.contiguous(channels_last), made = Points(tile_, weight_tiles()).of(weight_tiles());
  transform(made, in.const_data_ptr<float>(), weight_tiles(), tile_, WinogradMap::weight);
  return made;
}

Tensor Winograd::forward(const Tensor& input, const Tensor& weight_points, const Tensor& bias) const {
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
      transform(x, image(in, n), input_tiles(count), tile_, WinogradMap::input);
      at::bmm_out(y, x, weight_points.transpose(1, 2));
      transform_back(image(result, n), y, result_tiles(count), tile_, WinogradMap::result, added);
    }
  });
  return result;
}

Tensor Winograd::backward(const Tensor& gradient, const Tensor& input, const Tensor& weight_points, Tensor weight_gradient,
                          const std::function<void()>& written, bool needs_input) const {
  const Tensor by_result = gradient.contiguous(channels_last), in = input.contiguous(channels_last);
  Tensor by_input = needs_input ? at::empty(input_, in.options().memory_format(channels_last)) : Tensor();
  const std::int64_t part = images_a_part();
  std::vector<Tensor> by_weight(static_cast<std::size_t>(at::get_num_threads()));  // sums of each thread
  const auto finish = [&] {
    for (std::size_t i = 1; i < by_weight.size(); ++i) {
      if (by_weight[i].defined()) by_weight[0].add_(by_weight[i]);
    }
    transform_back(weight_gradient.data_ptr<float>(), by_weight[0], weight_tiles(), tile_, WinogradMap::weight);
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
      transform(x, image(in, n), input_tiles(count), tile_, WinogradMap::input);
      transform(g, image(by_result, n), result_tiles(count), tile_, WinogradMap::result);
      n == first ? at::bmm_out(sum, g.transpose(1, 2), x) : sum.baddbmm_(g.transpose(1, 2), x);
      if (alone) finish();
      if (!needs_input) continue;
      at::bmm_out(x, g, weight_points);
      transform_back(image(by_input, n), x, input_tiles(count), tile_, WinogradMap::input);
    }
  });
  if (!alone) finish();
  return by_input;
}

}  // namespace ripieno
