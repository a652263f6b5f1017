// Ranks over tcp, for the tests of what is above the transport.
#pragma once

#include "tests/transport/ranks.h"
