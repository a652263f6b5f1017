#include "ripieno/train/thread_settings.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ripieno {

ThreadSettings::ThreadSettings(c10::Device device)
    : threads_(at::get_num_threads()), caches_casts_(at::autocast::is_autocast_cache_enabled()) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

ThreadSettings::Here::Here(const ThreadSettings& settings)
    : state_(settings.state_), cached_casts_before_(at::autocast::is_autocast_cache_enabled()), stream_(settings.stream_) {
  at::autocast::set_autocast_cache_enabled(settings.caches_casts_);
  if (at::get_num_threads() != settings.threads_) at::set_num_threads(settings.threads_);
}

ThreadSettings::Here::~Here() { at::autocast::set_autocast_cache_enabled(cached_casts_before_); }

}  // namespace ripieno
