// The opcodes of pickle protocols 0 to 5.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemprof::pickle {

enum class Opcode : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  float_line = 'F',
  int_line = 'I',
  binint = 'J',
  binint1 = 'K',
  long_line = 'L',
  binint2 = 'M',
  none = 'N',
  persid = 'P',
  binpersid = 'Q',
  reduce = 'R',
  string_line = 'S',
  binstring = 'T',
  short_binstring = 'U',
  unicode_line = 'V',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  get_line = 'g',
  binget = 'h',
  inst = 'i',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  obj = 'o',
  put_line = 'p',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binfloat = 'G',
  proto = 0x80,
  newobj = 0x81,
  ext1 = 0x82,
  ext2 = 0x83,
  ext4 = 0x84,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  binbytes = 'B',
  short_binbytes = 'C',
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
  next_buffer = 0x97,
  readonly_buffer = 0x98,
};

// Bytes of the operand that precede any text or data whose length they give.
constexpr std::size_t operand_bytes(Opcode opcode) {
  switch (opcode) {
    case Opcode::binint1:
    case Opcode::binget:
    case Opcode::binput:
    case Opcode::proto:
    case Opcode::long1:
    case Opcode::short_binbytes:
    case Opcode::short_binunicode:
    case Opcode::short_binstring:
      return 1;
    case Opcode::binint2:
      return 2;
    case Opcode::binint:
    case Opcode::long_binget:
    case Opcode::long_binput:
    case Opcode::long4:
    case Opcode::binstring:
    case Opcode::binunicode:
    case Opcode::binbytes:
      return 4;
    case Opcode::binfloat:
    case Opcode::binunicode8:
    case Opcode::binbytes8:
    case Opcode::bytearray8:
    case Opcode::frame:
      return 8;
    default:
      return 0;
  }
}

// The name of an opcode that could call code or reach outside the file; empty for all others.
constexpr std::string_view refused_name(Opcode opcode) {
  switch (opcode) {
    case Opcode::global:
      return "GLOBAL";
    case Opcode::stack_global:
      return "STACK_GLOBAL";
    case Opcode::reduce:
      return "REDUCE";
    case Opcode::build:
      return "BUILD";
    case Opcode::inst:
      return "INST";
    case Opcode::obj:
      return "OBJ";
    case Opcode::newobj:
      return "NEWOBJ";
    case Opcode::newobj_ex:
      return "NEWOBJ_EX";
    case Opcode::ext1:
      return "EXT1";
    case Opcode::ext2:
      return "EXT2";
    case Opcode::ext4:
      return "EXT4";
    case Opcode::persid:
      return "PERSID";
    case Opcode::binpersid:
      return "BINPERSID";
    case Opcode::next_buffer:
      return "NEXT_BUFFER";
    case Opcode::readonly_buffer:
      return "READONLY_BUFFER";
    default:
      return "";
  }
}

}  // namespace gpumemprof::pickle
