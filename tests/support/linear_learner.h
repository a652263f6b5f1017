// The learner without LibTorch, for tests.
#pragma once

#include "ripieno/testing/linear_learner.h"

namespace ripieno::testing {

using ripieno::LinearLearner;
using ripieno::LinearOptions;

}  // namespace ripieno::testing
