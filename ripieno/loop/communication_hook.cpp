#include "ripieno/loop/communication_hook.h"

namespace ripieno::loop {

CommunicationHook hook_of(codec::CodecOptions options) {
  return [averages = std::make_shared<c10d::BucketAverages>(std::move(options))](ProcessGroup group,
                                                                                 GradientBucket bucket) {
    c10d::Shapes shapes;
    for (const torch::Tensor& gradient : bucket.gradients) shapes.push_back(gradient.sizes().vec());
    return group->average(averages, bucket.index, bucket.numbers, std::move(shapes), bucket.generation);
  };
}

}  // namespace ripieno::loop
