// OpenMPI's settings that the suite needs, in its launcher and in every rank. The user's own
// settings win.
#pragma once

#include <string_view>

namespace overlapbench {

// Call it before MPI starts, and before threads do: it changes the environment.
void SetMpiDefaults();

// Whether `setting`, such as "OMPI_MCA_opal_signal=", is one of them.
bool IsMpiDefault(std::string_view setting);

}  // namespace overlapbench
