// A loop whose rounds do not touch each other, on as many threads as the machine has cores.
#pragma once

#include <cstddef>
#include <functional>

namespace ripieno {

/// Calls work(i) once for each i of [0, count), begun in this order, and returns when all have ended. If some throw, no
/// others are begun, and the error of the least i is thrown.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace ripieno
