// Whether all ranks of a job read the same data: hosts have files of their own.
#pragma once

#include "apps/ripieno/settings.h"
#include "ripieno/collective/communicator.h"

namespace ripieno::program {

/// All ranks call it, before they depend on their data. Error(mismatch), with two ranks, their hosts and what both
/// read, if the numbers of images differ, or their labels, or up to 2,000 images of each split. Generated data are the
/// recipe's. Errors of opening and reading the data.
Task<> check_same_data(const Settings& settings, collective::Communicator comm);

}  // namespace ripieno::program
