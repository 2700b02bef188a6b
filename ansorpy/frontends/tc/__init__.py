"""The text notation of Tensor Comprehensions: lexer, parser, inference of ranges, lowering."""
