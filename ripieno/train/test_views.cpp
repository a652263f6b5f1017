#include <array>

#include "ripieno/core/edit_distance.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::train {

TestViews find_test_views(const std::string& name) {
  struct Row {
    const char* name;
    TestViews views;
  };
  constexpr std::array known{Row{"none", TestViews::one}, Row{"flip", TestViews::flipped},
                             Row{"flip-shift", TestViews::flipped_shifted}};
  return find_named(known, name, "test-time augmentation").views;
}

torch::Tensor logits_of_views(TestViews views, const torch::Tensor& images,
                              const std::function<torch::Tensor(const torch::Tensor&)>& logits) {
  const auto of = [&](const torch::Tensor& view) { return logits(view.contiguous(images.suggest_memory_format())); };
  if (views == TestViews::one) return of(images);
  const auto both = [&](const torch::Tensor& view) { return 0.5 * of(view) + 0.5 * of(view.flip(3)); };
  if (views == TestViews::flipped) return both(images);
  const std::int64_t height = images.size(2), width = images.size(3);
  const torch::Tensor padded = torch::reflection_pad2d(images, {1, 1, 1, 1});
  const auto moved = [&](std::int64_t by) { return both(padded.narrow(2, by, height).narrow(3, by, width)); };
  return 0.5 * both(images) + 0.25 * moved(0) + 0.25 * moved(2);
}

}  // namespace ripieno::train
