/// Parts of memory instructions that ld, st, atom and red share.
#pragma once

#include "tests/emulated_gpu/ptx/decode.h"

namespace emulated_gpu {

Space take_space(Decoding& decoding);  ///< generic where none is named
Scope take_scope(Decoding& decoding);  ///< the device where none is named
/// The row (`in.a`) and offset of an operand in [].
void set_address(Decoding& decoding, Access& access, const Operand& operand);

}  // namespace emulated_gpu
