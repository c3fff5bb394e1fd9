/// The loop of a program that Python tests drive line by line.
#pragma once

#include <exception>
#include <iostream>
#include <string>

namespace speedtorch {

/// Answers each line of input with `answer(line)`, or with "error: ..." if it throws.
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
