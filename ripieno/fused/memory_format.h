// The memory format of images and convolution weights: channels last, N x H x W x C in memory.
#pragma once

#include <torch/types.h>

namespace ripieno::fused {

inline constexpr auto channels_last = torch::MemoryFormat::ChannelsLast;

}  // namespace ripieno::fused
