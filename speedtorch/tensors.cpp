#include "speedtorch/tensors.h"

#include <sstream>

namespace speedtorch {

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

}  // namespace speedtorch
