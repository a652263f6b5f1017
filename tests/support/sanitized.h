// Whether a sanitizer looks on, which makes all of it some ten times as slow: what a test then repeats less often.
#pragma once

namespace ripieno::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace ripieno::testing
