/// The loop of a program that Python tests drive by lines.
#pragma once

#include <exception>
#include <iostream>
#include <string>

namespace speedtorch {

/// One line of answer, `answer(line)`, for each line that comes in; "error: ..." where it throws.
template <class Answer>
int answer_lines(Answer answer) {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(line) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace speedtorch
