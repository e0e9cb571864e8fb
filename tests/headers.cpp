// Makes the tests' precompiled headers; the program does nothing.
int main() {}
