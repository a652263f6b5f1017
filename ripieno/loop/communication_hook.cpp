#include "ripieno/loop/communication_hook.h"

#include <atomic>

namespace ripieno::loop {

CommunicationHook hook_of(codec::CodecOptions options) {
  const auto model = std::make_shared<std::atomic<const void*>>(nullptr);
  return [averages = std::make_shared<c10d::BucketAverages>(std::move(options)), model](ProcessGroup group,
                                                                                        GradientBucket bucket) {
    const void* first = nullptr;
    if (!model->compare_exchange_strong(first, bucket.model) && first != bucket.model) {
      fail(ErrorKind::usage, "a hook with codec ", averages->codec(),
           " in two models: what it keeps of one's gradients is not the other's, so make one for each");
    }
    c10d::Shapes shapes;
    for (const torch::Tensor& gradient : bucket.gradients) shapes.push_back(gradient.sizes().vec());
    return group->average(averages, bucket.index, bucket.numbers, std::move(shapes), bucket.generation);
  };
}

}  // namespace ripieno::loop
