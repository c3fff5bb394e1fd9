// A module's directives and functions.

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "tests/emulated_gpu/ptx.h"
#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/registers.h"
#include "tests/emulated_gpu/ptx/text.h"

namespace emulated_gpu {
namespace {

std::uint64_t aligned(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// ".align 8 .b8 name[24]" or ".u64 name".
struct Declaration {
  Token name;
  Type type = Type::b8;
  std::uint64_t alignment = 1, bytes = 0;
  bool unsized = false;  ///< name[]
};

class Parser {
 public:
  explicit Parser(std::string_view text)
      : text_(std::make_shared<const std::string>(text)),
        tokens_(*text_),
        module_(std::make_unique<Module>()) {}

  std::unique_ptr<Module> parse() {
    while (tokens_.peek().kind != Token::Kind::end) parse_directive();
    for (auto& [name, kernel] : module_->kernels) {
      auto code = std::const_pointer_cast<Code>(kernel->code);
      code->variables = variables_;
    }
    return std::move(module_);
  }

 private:
  void parse_directive() {
    const auto word = tokens_.want_word();
    if (word.text == ".version" || word.text == ".address_size") {
      tokens_.next();
    } else if (word.text == ".target") {
      do tokens_.next();
      while (tokens_.take(","));
    } else if (word.text == ".visible" || word.text == ".weak" || word.text == ".common") {
      return;
    } else if (word.text == ".extern") {
      parse_extern();
    } else if (word.text == ".entry") {
      parse_entry();
    } else if (word.text == ".global" || word.text == ".const") {
      parse_variable(word.text == ".const");
    } else if (word.text == ".shared") {
      declare_shared(module_symbols_, false);
    } else if (word.text == ".file" || word.text == ".pragma") {
      skip_line(word.line);
    } else if (word.text == ".section") {
      skip_block();
    } else {
      refuse_ptx(word.line, std::string(word.text) + " is not known");
    }
  }

  void parse_extern() {
    const auto word = tokens_.want_word();
    if (word.text == ".shared") {
      declare_shared(module_symbols_, true);
    } else if (word.text == ".func") {  // a declaration; calling it is an error
      while (!tokens_.take(";")) tokens_.next();
    } else {
      refuse_ptx(word.line, ".extern " + std::string(word.text) + " is not known");
    }
  }

  void skip_line(std::uint32_t line) {
    while (tokens_.peek().line == line && tokens_.peek().kind != Token::Kind::end) tokens_.next();
  }

  void skip_block() {
    while (!tokens_.take("{")) tokens_.next();
    for (int depth = 1; depth > 0;) {
      const auto token = tokens_.next();
      if (token.kind == Token::Kind::end) refuse_ptx(token.line, "a block has no end");
      if (token.text == "{") ++depth;
      if (token.text == "}") --depth;
    }
  }

  Declaration parse_declaration() {
    Declaration declaration;
    bool has_alignment = false;
    for (;;) {
      const auto word = tokens_.want_word();
      if (word.text == ".align") {
        const auto alignment = static_cast<std::uint64_t>(tokens_.want_integer());
        if (!is_pointer_) declaration.alignment = alignment;
        has_alignment = has_alignment || !is_pointer_;
      } else if (word.text == ".ptr") {
        is_pointer_ = true;  // what follows is about the memory that it points to
      } else if (is_pointer_ && (word.text == ".global" || word.text == ".shared" || word.text == ".const" ||
                                 word.text == ".local")) {
        continue;
      } else if (word.text.front() == '.') {
        const auto type = type_named(word.text.substr(1));
        if (!type || *type == Type::pred) refuse_ptx(word.line, std::string(word.text) + " is not known");
        declaration.type = *type;
      } else {
        declaration.name = word;
        break;
      }
    }
    is_pointer_ = false;
    if (!has_alignment) declaration.alignment = bytes_of(declaration.type);
    declaration.bytes = bytes_of(declaration.type);
    while (tokens_.take("[")) {
      if (tokens_.take("]")) {
        declaration.unsized = true;
        continue;
      }
      declaration.bytes *= static_cast<std::uint64_t>(tokens_.want_integer());
      tokens_.want("]");
    }
    return declaration;
  }

  void parse_variable(bool read_only) {
    const auto declaration = parse_declaration();
    auto storage = std::make_unique<std::byte[]>(declaration.bytes + declaration.alignment);
    auto* bytes = storage.get();
    bytes += (declaration.alignment - reinterpret_cast<std::uintptr_t>(bytes) % declaration.alignment) %
             declaration.alignment;
    std::memset(bytes, 0, declaration.bytes);
    if (tokens_.take("=")) parse_values(declaration, bytes);
    tokens_.want(";");
    const auto address = reinterpret_cast<std::uint64_t>(bytes);
    const auto name = std::string(declaration.name.text);
    module_->variables[name] = {declaration.bytes, read_only, bytes};
    module_->storage.push_back(std::move(storage));
    module_symbols_.push_back({name, {Space::global, address}, 0, 1, false});
    variables_.push_back({address, address + declaration.bytes, bytes, read_only, nullptr});
  }

  void parse_values(const Declaration& declaration, std::byte* bytes) {
    const bool listed = tokens_.take("{");
    std::uint64_t at = 0;
    do {
      const bool negative = tokens_.take("-");
      const auto token = tokens_.next();
      if (token.kind != Token::Kind::number)
        refuse_ptx(token.line, "only numbers are known as initial values");
      std::uint64_t value = 0;
      const double real = is_real(token.text) ? real_of(token) : static_cast<double>(integer_of(token));
      if (declaration.type == Type::f64) {
        value = std::bit_cast<std::uint64_t>(negative ? -real : real);
      } else if (declaration.type == Type::f32) {
        value = std::bit_cast<std::uint32_t>(static_cast<float>(negative ? -real : real));
      } else {
        value = negative ? 0 - integer_of(token) : integer_of(token);
      }
      const auto size = bytes_of(declaration.type);
      if (at + size > declaration.bytes)
        refuse_ptx(token.line, "there are more values than the variable has room for");
      std::memcpy(bytes + at, &value, size);
      at += size;
    } while (listed && tokens_.take(","));
    if (listed) tokens_.want("}");
  }

  /// A symbol of the module; of shared ones the address is set in each kernel.
  struct ModuleSymbol {
    std::string name;
    Symbol symbol;
    std::uint64_t bytes = 0, alignment = 1;
    bool dynamic = false;
  };

  void declare_shared(std::vector<ModuleSymbol>& symbols, bool is_extern) {
    const auto declaration = parse_declaration();
    tokens_.want(";");
    symbols.push_back({std::string(declaration.name.text),
                       {Space::shared, 0},
                       declaration.bytes,
                       declaration.alignment,
                       is_extern || declaration.unsized});
  }

  void parse_entry() {
    const auto name = tokens_.want_word();
    auto kernel = std::make_unique<Kernel>();
    kernel->name = std::string(name.text);
    function_ = std::make_unique<Function>();
    shared_bytes_ = 0;
    local_bytes_ = 0;
    function_begun_ = false;
    if (tokens_.take("(")) parse_parameters(*kernel);
    parse_performance(*kernel);
    bool has_shared = false;
    for (const auto& symbol : module_symbols_) {
      if (symbol.symbol.space == Space::global) function_->declare_symbol(symbol.name, symbol.symbol);
      has_shared = has_shared || symbol.symbol.space == Space::shared;
    }
    shared_is_placed_ = has_shared;
    if (has_shared) place_all_shared();
    tokens_.want("{");
    parse_block();
    finish(*kernel);
    module_->kernels[kernel->name] = std::move(kernel);
  }

  void finish(Kernel& kernel) {
    begin_code();
    Instruction end;
    end.flow = Flow::exit;
    end.line = tokens_.peek().line;
    function_->code.instructions.push_back(end);
    function_->resolve_labels();
    assign_registers(function_->code, function_->rows);
    function_->code.text = text_;
    if (!has_dynamic_shared()) function_->code.dynamic_shared_begin = shared_bytes_;
    kernel.static_shared = shared_bytes_;
    kernel.local_bytes = local_bytes_;
    kernel.code = std::make_shared<Code>(std::move(function_->code));
    function_.reset();
  }

  void parse_parameters(Kernel& kernel) {
    while (!tokens_.take(")")) {
      tokens_.want(".param");
      const auto declaration = parse_declaration();
      const auto offset = aligned(kernel.parameter_bytes, declaration.alignment);
      kernel.parameters.push_back({offset, declaration.bytes});
      kernel.parameter_bytes = offset + declaration.bytes;
      function_->declare_symbol(std::string(declaration.name.text), {Space::parameter, offset});
      tokens_.take(",");
    }
  }

  void parse_performance(Kernel& kernel) {
    while (tokens_.peek().text != "{") {
      const auto word = tokens_.want_word();
      if (word.text == ".maxntid" || word.text == ".reqntid") {
        unsigned threads = 1;
        do threads *= static_cast<unsigned>(tokens_.want_integer());
        while (tokens_.take(","));
        kernel.most_threads = std::min(1024u, threads);
      } else if (word.text == ".minnctapersm" || word.text == ".maxnctapersm" || word.text == ".maxnreg") {
        tokens_.want_integer();
      } else if (word.text == ".pragma") {
        while (!tokens_.take(";")) tokens_.next();
      } else {
        refuse_ptx(word.line, std::string(word.text) + " is not known");
      }
    }
  }

  void place_shared(const std::string& name, std::uint64_t bytes, std::uint64_t alignment) {
    shared_bytes_ = aligned(shared_bytes_, alignment);
    function_->declare_symbol(name, {Space::shared, shared_bytes_});
    shared_bytes_ += bytes;
  }

  /// Dynamic shared memory lies behind all that has a size, which is known when the instructions begin.
  void begin_code() {
    if (function_begun_) return;
    function_begun_ = true;
    std::uint64_t alignment = 16;
    for (const auto& symbol : module_symbols_) {
      if (symbol.dynamic) alignment = std::max(alignment, symbol.alignment);
    }
    const auto begin = aligned(shared_bytes_, alignment);
    function_->code.dynamic_shared_begin = begin;
    for (const auto& symbol : module_symbols_) {
      if (symbol.dynamic) function_->declare_symbol(symbol.name, {Space::shared, begin});
    }
  }

  /// Looks ahead in the function: which of the module's shared variables it uses, and where dynamic shared
  /// memory begins, has to be known before the first instruction.
  void place_all_shared() {
    const auto here = tokens_;
    std::unordered_set<std::string_view> words;
    tokens_.want("{");
    for (int depth = 1; depth > 0;) {
      const auto token = tokens_.next();
      if (token.kind == Token::Kind::end) refuse_ptx(token.line, "the function has no end");
      if (token.text == "{") ++depth;
      if (token.text == "}") --depth;
      if (token.text != ".shared") {
        words.insert(token.text);
        continue;
      }
      const auto declaration = parse_declaration();
      place_shared(std::string(declaration.name.text), declaration.bytes, declaration.alignment);
    }
    tokens_ = here;
    for (const auto& symbol : module_symbols_) {
      const bool has_size = symbol.symbol.space == Space::shared && !symbol.dynamic;
      if (has_size && words.count(symbol.name) != 0)
        place_shared(symbol.name, symbol.bytes, symbol.alignment);
    }
  }

  bool has_dynamic_shared() const {
    return std::any_of(module_symbols_.begin(), module_symbols_.end(),
                       [](const ModuleSymbol& symbol) { return symbol.dynamic; });
  }

  void parse_block() {
    function_->open_scope();
    while (!tokens_.take("}")) parse_statement();
    function_->close_scope();
  }

  void parse_statement() {
    if (tokens_.take("{")) return parse_block();
    if (tokens_.take(";")) return;
    if (tokens_.peek().text == "@") return parse_instruction();
    const auto word = tokens_.peek();
    if (word.kind != Token::Kind::word)
      refuse_ptx(word.line, "'" + std::string(word.text) + "' is not expected");
    if (word.text.front() != '.') return parse_label_or_instruction();
    tokens_.next();
    if (word.text == ".reg") {
      parse_registers();
    } else if (word.text == ".shared") {
      const auto declaration = parse_declaration();
      tokens_.want(";");
      if (!shared_is_placed_)
        place_shared(std::string(declaration.name.text), declaration.bytes, declaration.alignment);
    } else if (word.text == ".local") {
      const auto declaration = parse_declaration();
      tokens_.want(";");
      local_bytes_ = aligned(local_bytes_, declaration.alignment);
      function_->declare_symbol(std::string(declaration.name.text), {Space::local, local_bytes_});
      local_bytes_ += declaration.bytes;
    } else if (word.text == ".pragma") {
      while (!tokens_.take(";")) tokens_.next();
    } else if (word.text == ".loc") {
      skip_line(word.line);
    } else {
      refuse_ptx(word.line, std::string(word.text) + " is not known");
    }
  }

  void parse_registers() {
    const auto type_word = tokens_.want_word();
    const auto type = type_named(type_word.text.substr(1));
    if (!type) refuse_ptx(type_word.line, std::string(type_word.text) + " is not known");
    do {
      const auto name = tokens_.want_word();
      if (tokens_.take("<")) {
        const auto count = tokens_.want_integer();
        tokens_.want(">");
        function_->declare_range(std::string(name.text), *type, static_cast<unsigned>(count));
      } else {
        function_->declare(std::string(name.text), *type);
      }
    } while (tokens_.take(","));
    tokens_.want(";");
  }

  void parse_label_or_instruction() {
    const auto word = tokens_.next();
    if (tokens_.take(":")) return function_->place_label(word);
    parse_operation(word, nullptr, false);
  }

  void parse_instruction() {
    tokens_.want("@");
    const bool inverted = tokens_.take("!");
    const auto guard = tokens_.want_word();
    const auto opcode = tokens_.want_word();
    parse_operation(opcode, &guard, inverted);
  }

  void parse_operation(const Token& opcode, const Token* guard, bool inverted) {
    begin_code();
    std::vector<Operand> operands;
    while (tokens_.peek().text != ";") {
      operands.push_back(parse_operand());
      if (!tokens_.take(",")) break;
    }
    tokens_.want(";");
    Decoding decoding(*function_, opcode, std::move(operands));
    if (guard != nullptr) {
      const auto* const found = function_->find_register(guard->text);
      if (found == nullptr || found->type != Type::pred)
        decoding.refuse(std::string(guard->text) + " is no predicate");
      decoding.in.guard = found->slot;
      decoding.in.guard_flip = inverted ? kAllLanes : 0;
    }
    Decoders::all().decode(decoding);
  }

  Operand parse_operand() {
    Operand operand;
    if (tokens_.take("{")) {
      operand.form = Operand::Form::vector;
      while (!tokens_.take("}")) {
        operand.parts.push_back(parse_operand());
        tokens_.take(",");
      }
      return operand;
    }
    if (tokens_.take("[")) return parse_address();
    operand.inverted = tokens_.take("!");
    operand.negative = tokens_.take("-");
    operand.token = tokens_.next();
    if (operand.token.kind == Token::Kind::number) {
      operand.form = Operand::Form::number;
    } else if (operand.token.kind == Token::Kind::word) {
      operand.form = Operand::Form::name;
    } else {
      refuse_ptx(operand.token.line, "'" + std::string(operand.token.text) + "' is no operand");
    }
    if (tokens_.take("|")) operand.second = tokens_.want_word();
    return operand;
  }

  Operand parse_address() {
    Operand operand;
    operand.form = Operand::Form::address;
    operand.negative = tokens_.take("-");
    operand.token = tokens_.next();
    if (tokens_.take("+")) {
      operand.offset = tokens_.want_integer();
    } else if (tokens_.peek().text == "-") {
      operand.offset = tokens_.want_integer();
    }
    tokens_.want("]");
    return operand;
  }

  std::shared_ptr<const std::string> text_;
  Tokens tokens_;
  std::unique_ptr<Module> module_;
  std::vector<ModuleSymbol> module_symbols_;
  std::vector<Range> variables_;
  std::unique_ptr<Function> function_;
  std::uint64_t shared_bytes_ = 0, local_bytes_ = 0;
  bool function_begun_ = false, is_pointer_ = false, shared_is_placed_ = false;
};

}  // namespace

std::unique_ptr<Module> parse_ptx(std::string_view text) { return Parser(text).parse(); }

}  // namespace emulated_gpu
