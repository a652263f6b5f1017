#include "ripieno/fused/gradient_places.h"

namespace ripieno::fused {
namespace {

// Autograd calls an operation's backward without extra arguments, so it finds its thread's lender here.
thread_local GradientPlaces* places_of_thread = nullptr;

}  // namespace

LendGradientPlaces::LendGradientPlaces(GradientPlaces& places) : before_(std::exchange(places_of_thread, &places)) {}

LendGradientPlaces::~LendGradientPlaces() { places_of_thread = before_; }

torch::Tensor place_for_gradient(const torch::Tensor& parameter) {
  if (places_of_thread) {
    torch::Tensor place = places_of_thread->take(parameter);
    if (place.defined()) return place;
  }
  return torch::empty_like(parameter);
}

void gradient_written(const torch::Tensor& parameter) {
  if (places_of_thread) places_of_thread->written(parameter);
}

std::vector<torch::Tensor> parts_of(const torch::Tensor& parameter) {
  if (!places_of_thread) return {};
  return places_of_thread->parts(parameter);
}

void gradient_part_written(const torch::Tensor& parameter, std::size_t part) {
  if (places_of_thread) places_of_thread->part_written(parameter, part);
}

}  // namespace ripieno::fused
