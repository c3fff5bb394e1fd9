/// ProcessGroupGloo.hpp includes this header of Gloo, and needs of it what context.h declares.
#pragma once

#include "gloo/context.h"
